"""The lease table and its journal compared with a naive table, and the bounds of the ledger."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.address import pop_retry_topic
from domain.errors import ErrorCode, Failure
from domain.message.message import Message
from domain.message.record import Record
from store.lease import journal
from store.lease.ranges import Ranges
from store.lease.table import LeaseTable
from store.settings import StoreSettings
from tests.store.driver import Driver, code_of


class NaiveTable:
    """Each offset on its own: settled, or leased as (pop ms, end ms, attempts), or neither."""

    def __init__(self) -> None:
        self.start = 0
        self.settled: set[int] = set()
        self.leases: dict[int, tuple[int, int, int]] = {}
        self.head = 0

    def floor(self) -> int:
        offset = self.start
        while offset in self.settled:
            offset += 1
        return offset

    def lease(self, limit: int, pop: int, end: int, now: int) -> list[tuple[int, int]]:
        taken: list[tuple[int, int]] = []
        for offset in sorted(self.leases):
            if len(taken) < limit and self.leases[offset][1] <= now:
                attempts = self.leases[offset][2] + 1
                self.leases[offset] = (pop, end, attempts)
                taken.append((offset, attempts))
        while len(taken) < limit:
            self.leases[self.head] = (pop, end, 1)
            taken.append((self.head, 1))
            self.head += 1
        return taken

    def settle(self, offset: int, pop: int) -> bool:
        if offset in self.leases:
            if self.leases[offset][0] != pop:
                return False
            del self.leases[offset]
            self.settled.add(offset)
            return True
        return offset < self.floor() or offset in self.settled

    def extend(self, offset: int, pop: int, new_pop: int, end: int) -> bool:
        if offset not in self.leases or self.leases[offset][0] != pop:
            return False
        self.leases[offset] = (new_pop, end, self.leases[offset][2])
        return True

    def commit(self, offset: int) -> None:
        if offset < self.floor():
            self.leases.clear()
            self.settled.clear()
            self.start = self.head = offset
        else:
            self.leases = {at: lease for at, lease in self.leases.items() if at >= offset}
            self.settled |= set(range(self.start, offset))
            self.head = max(self.head, offset)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("lease"), st.integers(1, 6), st.integers(1, 30)),
        st.tuples(st.just("settle"), st.integers(0, 40), st.integers(0, 3)),
        st.tuples(st.just("extend"), st.integers(0, 40), st.integers(0, 30)),
        st.tuples(st.just("commit"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 40), st.just(0)),
        st.tuples(st.just("crash"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


def take(table: LeaseTable, limit: int, pop: int, end: int, now: int) -> list[tuple[int, int]]:
    """Lease as the ledger does: redeliveries first, then new messages."""
    table.expire(now)
    taken = [(offset, table.lease(offset, pop, end).attempts) for offset in table.redeliverable(limit)]
    while len(taken) < limit:
        offset = table.head
        taken.append((offset, table.lease(offset, pop, end).attempts))
    return taken


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_table_and_journal_agree_with_the_naive_table(steps: list[tuple[str, int, int]]) -> None:
    table, naive = LeaseTable("g", "t", 0, 0), NaiveTable()
    copy = LeaseTable("g", "t", 0, 0)
    now = 1_000
    for verb, one, two in steps:
        known = naive.leases.get(one, (0, 0, 0))[0]
        if verb == "lease":
            pop = table.next_pop_ms(now)
            assert take(table, one, pop, pop + two, now) == naive.lease(one, pop, pop + two, now)
        elif verb == "settle":
            pop = known if two else known - 1
            assert (table.settle(one, pop) is None) == naive.settle(one, pop)
        elif verb == "extend":
            pop = table.next_pop_ms(now)
            assert (table.extend(one, known, pop, now + two) is None) == naive.extend(one, known, pop, now + two)
        elif verb == "commit":
            table.commit(one)
            naive.commit(one)
        elif verb == "wait":
            now += one
        journal.apply(copy, journal.changed_value(table)[0])
        if verb == "crash":
            journal.recovered(copy)
            table, copy = copy, LeaseTable("g", "t", 0, 0)
            journal.apply(copy, journal.whole_value(table))
        assert table.floor == naive.floor()
        assert table.head == max(naive.head, naive.floor())
        assert {at: (lease.pop_ms, lease.end_ms, lease.attempts) for at, lease in table.leases.items()} == naive.leases
        assert not [offset for offset in table.leases if offset in table.settled or offset < table.floor]


@settings(max_examples=100, deadline=None)
@given(STEPS, st.integers(0, 40))
def test_applying_a_part_of_the_journal_twice_does_no_harm(steps: list[tuple[str, int, int]], cut: int) -> None:
    table = LeaseTable("g", "t", 0, 0)
    values: list[bytes] = []
    now = 1_000
    middle = b""
    for number, (verb, one, two) in enumerate(steps):
        if verb == "lease":
            pop = table.next_pop_ms(now)
            take(table, one, pop, pop + two, now)
        elif verb == "settle" and one in table.leases:
            table.settle(one, table.leases[one].pop_ms)
        elif verb == "commit":
            table.commit(one)
        elif verb == "wait":
            now += one
        values.append(journal.changed_value(table)[0])
        if number == cut:
            middle = journal.whole_value(table)
    copy = LeaseTable("g", "t", 0, 0)
    for value in [middle, *values] if middle else values:
        journal.apply(copy, value)
    journal.recovered(copy)
    assert journal.whole_value(copy) == journal.whole_value(table)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9))), st.integers(0, 70))
def test_ranges_are_a_set(spans: list[tuple[int, int]], floor: int) -> None:
    ranges, naive = Ranges(), set()
    for start, length in spans:
        ranges.add(start, start + length)
        naive |= set(range(start, start + length))
        assert {offset for offset in range(80) if offset in ranges} == naive
        assert all(end < start for end, start in zip(ranges.ends, ranges.starts[1:], strict=False))
    first = ranges.pop_from(floor)
    expected = floor
    while expected in naive:
        expected += 1
    assert first == expected
    assert {offset for offset in range(80) if offset in ranges} == {offset for offset in naive if offset >= first}


def test_a_message_that_blocks_the_floor_too_long_moves_to_the_retry_topic() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(checkpoint_ms=10_000_000))
    driver.send("t", b"poison", properties=b"KEYS\x01k\x02")
    for _ in range(10):
        assert len(driver.lease("g", "t", invisible_ms=60_000).messages) == 1
        driver.clock.run_for(60_000)
    assert driver.lease("g", "t").messages == []
    driver.clock.run_for(10)
    retry = pop_retry_topic("g", "t")
    assert driver.store.metadata.topic(retry) is not None
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 1
    after = driver.killed()
    assert after.call(after.store.positions.offset, "g", "t", 0) == 1, "copy and settle are one commit"
    copy = after.lease("g", retry).messages[0]
    assert copy.attempt == 11
    assert Record(copy.record).body == b"poison"
    assert b"RETRY_TOPIC\x01t\x02" in Record(copy.record).properties


def test_a_group_that_begins_at_the_last_message_begins_at_the_first_while_that_is_in_the_newest_part_of_the_log() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(hot_bytes=3_000))
    driver.send("t", b"a", b"b", b"c")
    driver.send("u", *[b"x" * 500] * 4)
    assert len(driver.lease("young", "t", from_first=False).messages) == 3
    driver.send("u", *[b"x" * 500] * 4)
    assert driver.call(driver.store.log.is_hot, "t", 0) is False
    old = driver.lease("old", "t", from_first=False).messages
    assert [Record(message.record).body for message in old] == [b"c"], "the last one there is (PopMessageProcessor)"
    assert len(driver.lease("first", "t", from_first=True).messages) == 3
    after = driver.killed()
    assert after.call(after.store.log.is_hot, "t", 0) is False
    assert after.call(after.store.positions.offset, "old", "t", 0) == 2, "where it begins is on record with its first lease"


def test_fleeting_leases_end_with_the_process_and_others_do_not() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"a", b"b", b"c")
    [kept] = driver.lease("g", "t", 1, 60_000).messages
    passing = driver.lease("g", "t", 2, 60_000, fleeting=True).messages
    assert [message.receipt.queue_offset for message in passing] == [1, 2]
    after = driver.killed()
    assert after.lease("g", "t").messages == [], "who has receipts on record may still use them"
    assert after.settle("g", "t", passing[1]) == [None]
    after.store.leases.lapse()
    again = after.lease("g", "t", 32, 60_000).messages
    assert [(message.receipt.queue_offset, message.attempt) for message in again] == [(1, 2)]
    after.store.leases.lapse()
    assert after.lease("g", "t").messages == [], "these are no leases of the process before"
    after = after.killed()
    after.store.leases.lapse()
    assert after.lease("g", "t").messages == [], "leased again by somebody who stays"
    assert after.settle("g", "t", kept, *again) == [None, None]


def test_a_group_holds_a_bounded_number_of_leases_on_a_queue() -> None:
    driver = Driver.with_topics("t")
    driver.append([Message("t", b"x", queue_id=0) for _ in range(10_050)])
    count = 0
    while leased := driver.lease("g", "t", limit=1_000, invisible_ms=3_600_000).messages:
        count += len(leased)
    assert count == 10_000
    driver.settle("g", "t", *leased)
    assert driver.store.figures()["leases"] == 10_000


def test_leasing_and_settling_many_times_leaves_only_the_floor() -> None:
    driver = Driver.with_topics("t")
    for _ in range(50):
        driver.send("t", *[b"x"] * 32)
        driver.settle("g", "t", *driver.lease("g", "t", invisible_ms=3_600_000).messages)
    table = driver.store.parts.ledger.tables["g", "t", 0]
    assert (table.floor, table.head) == (1_600, 1_600)
    assert not table.leases
    assert not table.end_heap
    assert not table.free_heap


def test_a_receipt_from_before_a_reset_is_expired_and_one_never_given_is_invalid() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", *[b"x"] * 10)
    leased = driver.lease("g", "t", limit=8).messages
    assert driver.call(driver.store.positions.reset, "g", [("t", 0, 2)]) is None
    for after in (driver, driver.killed()):
        [none, past] = after.settle("g", "t", leased[0], leased[5])
        assert none is None, "below the position it is settled"
        assert code_of(past) is ErrorCode.RECEIPT_EXPIRED
        assert [Record(one.record).queue_offset for one in after.lease("g", "t", limit=2, invisible_ms=1).messages] == [2, 3]
        after.clock.run_for(100)
        [again, beyond] = after.settle("g", "t", leased[2], leased[6])
        assert [each.code for each in (again, beyond) if isinstance(each, Failure)] == [ErrorCode.RECEIPT_EXPIRED] * 2
    leased[0].receipt.queue_offset = 10
    [never] = driver.settle("g", "t", leased[0])
    assert code_of(never) is ErrorCode.RECEIPT_INVALID
