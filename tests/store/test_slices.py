"""Maintenance of many things: what one turn does, and what one record holds, is bounded however many there are."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator

from domain.message.message import Message
from domain.store.store_ports import StateChange
from domain.turn import STORE_TASK_COST
from store.checkpoint import checkpointer, snapshot
from store.checkpoint.columns import ColumnReader
from store.deletion.compaction import SNAPSHOT_TABLES
from store.lease import idle_tables, journal
from store.queue import table
from store.queue.index import FORGET_QUEUES
from store.settings import StoreSettings
from store.state import change
from store.state.sorted_set import SortedSet
from store.state.view import EMPTY, LEASE
from tests.store.driver import Driver
from tests.stored_state import value_of

MANY = 3_000
LARGE = StoreSettings(checkpoint_bytes=1 << 30, cache_bytes=0)


def many_positions(driver: Driver, topic: str, group: str) -> None:
    """Give a group a position in each queue of a new topic."""
    driver.topic(topic, read_queues=MANY, write_queues=MANY)
    places = [(topic, number, number % 7) for number in range(MANY)]
    assert driver.call(driver.store.positions.commit, group, places) is None


def frames(driver: Driver) -> list[int]:
    """The number of changes or rows in each frame of the newest snapshot. A slice writes at least one."""
    found: list[int] = []
    for kind, _, body in snapshot.frames(driver.disk, driver.store.parts.checkpointer.last.snapshot):
        if kind in (snapshot.VALUES, snapshot.ROWS):
            found.append(len(list(change.decode(body))))
        elif kind != snapshot.FILES:
            found.append(len(ColumnReader(body).names()))
    return found


def test_a_snapshot_writes_a_bounded_number_of_changes_in_a_turn() -> None:
    driver = Driver(LARGE)
    many_positions(driver, "t", "g")
    assert driver.append([], [StateChange("n", b"%d" % number, b"v") for number in range(MANY)]) == []
    driver.checkpoint()
    assert sum(frames(driver)) >= 2 * MANY
    assert max(frames(driver)) <= max(checkpointer.SLICE_ITEMS, table.ROWS_MAX)
    again = driver.killed()
    assert again.store.parts.ledger.tables.floor(("g", "t", 13)) == 13 % 7
    assert value_of(again.store.state, "n", b"%d" % (MANY - 1)) == b"v"


def test_a_step_of_a_snapshot_makes_a_bounded_number_of_values_and_rows() -> None:
    driver = Driver(LARGE)
    driver.topic("t", read_queues=MANY, write_queues=MANY)
    driver.append([Message("t", b"x", queue_id=number) for number in range(MANY)])
    for number in range(MANY):
        driver.lease("g", "t", queue_id=number)
    for number in range(MANY):
        driver.topic(f"u{number}")
    live, most = 0, 0
    for found in driver.store.parts.checkpointer._source.snapshot():
        if isinstance(found, snapshot.Columns):
            most = max(most, found.rows)
        elif found is not None:
            changes = [item for _, item, _ in found if item.space == LEASE]
            assert len(changes) <= SNAPSHOT_TABLES
            live += len(changes)
    assert live == MANY
    assert 0 < most <= table.ROWS_MAX


def test_a_snapshot_looks_at_a_bounded_number_of_things_in_a_turn() -> None:
    driver = Driver.with_topics("t", config=LARGE)
    turns: dict[float, int] = {}

    most = checkpointer.SLICE_LOOKS // checkpointer.LOOKS_OF_STEP

    def source() -> Iterator[list[snapshot.SnapshotItem] | None]:
        for number in range(5 * most):
            turns[driver.clock.monotonic_ns()] = turns.get(driver.clock.monotonic_ns(), 0) + 1
            yield [(0, StateChange("n", b"%d" % number, b"v"), False)] if number % most == 5 else None

    driver.store.parts.checkpointer._source = type("Source", (), {"snapshot": staticmethod(source)})()
    driver.checkpoint()
    assert max(turns.values()) <= most + 1
    assert sum(frames(driver)) == 5


def test_the_deletion_of_a_topic_is_one_small_record() -> None:
    driver = Driver(LARGE)
    many_positions(driver, "t", "g")
    many_positions(driver, "t2", "g")
    driver.clock.run_for(30_000)
    ledger = driver.store.parts.ledger
    before = driver.store.parts.commit.end
    assert driver.call(driver.store.metadata.delete_topic, "t") is None
    assert driver.store.parts.commit.end - before < 1_000
    assert len(ledger.tables) == MANY
    assert ledger.tables.floor(("g", "t", 13)) == -1
    for end in (driver.killed, driver.powered_off):
        found = end()
        tables = found.store.parts.ledger.tables
        assert (len(tables), tables.floor(("g", "t", 13)), tables.floor(("g", "t2", 13))) == (MANY, -1, 13 % 7)


def test_the_deletion_of_a_topic_is_behind_the_last_checkpoint_and_a_later_topic_has_its_own_positions() -> None:
    driver = Driver(LARGE)
    many_positions(driver, "t", "g")
    driver.checkpoint()
    assert driver.call(driver.store.metadata.delete_topic, "t") is None
    driver.topic("t")
    driver.send("t", b"new")
    [leased] = driver.lease("g", "t").messages
    assert driver.settle("g", "t", leased) == [None]
    driver.clock.run_for(30_000)
    for found in (driver.killed(), driver.powered_off()):
        tables = found.store.parts.ledger.tables
        assert (len(tables), tables.floor(("g", "t", 0))) == (1, 1)
        found.checkpoint()
        assert len(found.killed().store.parts.ledger.tables) == 1


def test_the_tables_and_queues_of_a_deleted_topic_are_forgotten_in_slices() -> None:
    driver = Driver(LARGE)
    driver.topic("t", read_queues=MANY, write_queues=MANY)
    for number in range(0, MANY, 100):
        assert isinstance(driver.append([Message("t", b"1", b"", queue_id=at) for at in range(number, number + 100)]), list)
        places = [("t", at, 1) for at in range(number, number + 100)]
        assert driver.call(driver.store.positions.commit, "g", places) is None
    parts = driver.store.parts
    tables, index = parts.ledger.tables, parts.index
    assert (len(tables.live), len(tables), index.tail_rows) == (MANY, MANY, MANY)
    driver.store.metadata.delete_topic("t", lambda _: None)
    assert len(tables) == 0
    assert len(tables.live) >= MANY - 2 * idle_tables.CHUNK_ROWS, "of two chunks at once"
    assert index.tail_rows >= MANY - FORGET_QUEUES, "of some queues at once"
    assert tables.floor(("g", "t", 13)) == -1
    assert index.queue("t", 13) is None
    driver.topic("t", read_queues=MANY, write_queues=MANY)
    driver.send("t", b"2", queue_id=MANY - 1)
    assert driver.call(driver.store.positions.commit, "g", [("t", MANY - 1, 0)]) is None
    kept = tables.live["g", "t", MANY - 1]
    driver.clock.run_for(5_000)
    assert not tables.removals
    assert not index.deleted
    assert list(tables.live.values()) == [kept]
    assert (len(tables), index.tail_rows) == (1, 1)
    for found in (driver.killed(), driver.powered_off()):
        assert found.store.parts.ledger.tables.places() == [("g", "t", MANY - 1)]
        assert found.bodies("t", MANY - 1) == [b"2"]
        assert found.bodies("t", 13) == []


def test_a_table_of_a_deleted_topic_is_never_journaled_again() -> None:
    driver = Driver(LARGE)
    driver.topic("t", read_queues=MANY, write_queues=MANY)
    places = [("t", number, 0) for number in range(MANY)]
    assert driver.call(driver.store.positions.commit, "g", places) is None
    assert isinstance(driver.append([Message("t", b"1", b"", queue_id=MANY // 2)]), list)
    assert len(driver.lease("g", "t", queue_id=MANY // 2, invisible_ms=100).messages) == 1
    ledger = driver.store.parts.ledger
    held = ledger.tables.live["g", "t", MANY // 2]
    driver.store.positions.commit("g", [("t", MANY // 2 + 1, 0)], None)
    driver.store.metadata.delete_topic("t", lambda _: None)
    assert not held.dropped, "it is not forgotten yet"
    ledger.changed(held)
    driver.clock.run_for(20_000)
    assert len(driver.killed().store.parts.ledger.tables) == 0


def test_live_leases_of_a_deleted_topic_end() -> None:
    driver = Driver(LARGE)
    driver.topic("t", read_queues=40, write_queues=40)
    for number in range(40):
        driver.send("t", b"x", queue_id=number)
    assert len(driver.lease("g", "t").messages) == 32
    assert driver.call(driver.store.metadata.delete_topic, "t") is None
    tables = driver.store.parts.ledger.tables
    assert (len(tables), len(tables.live)) == (0, 0)
    driver.clock.run_for(20_000)
    assert driver.store.parts.ledger.leased() == 0
    assert driver.killed().store.parts.ledger.leased() == 0


def test_the_deletion_of_a_group_looks_at_a_bounded_number_of_tables_in_a_turn() -> None:
    driver = Driver(LARGE)
    for topic in ("t", "u"):
        many_positions(driver, topic, "g")
    many_positions(driver, "v", "h")
    tables = driver.store.parts.ledger.tables
    answers: list[object] = []
    driver.store.positions.drop_group("g", answers.append)
    seen = [len(tables)]
    while not answers:
        driver.clock.run_for(1)
        seen.append(len(tables))
    assert answers == [None]
    assert max(before - after for before, after in itertools.pairwise(seen)) <= 1_152
    assert len(seen) > 3
    assert len(tables) == MANY
    assert len(driver.killed().store.parts.ledger.tables) == MANY


def test_the_deletion_of_a_group_leaves_other_groups_alone() -> None:
    driver = Driver(LARGE)
    many_positions(driver, "t", "g")
    assert driver.call(driver.store.positions.commit, "g2", [("t", 0, 5)]) is None
    assert driver.call(driver.store.positions.commit, "t", [("g", 0, 6)]) is None
    assert driver.call(driver.store.positions.drop_group, "g") is None
    for found in (driver, driver.killed()):
        tables = found.store.parts.ledger.tables
        assert (len(tables), tables.floor(("g2", "t", 0)), tables.floor(("t", "g", 0))) == (2, 5, 6)


def test_keys_that_are_taken_are_those_with_the_prefix() -> None:
    entropy = random.Random(7)
    for _ in range(200):
        count = entropy.choice((0, 3, 40, 3_000))
        all_keys = {bytes(entropy.choices(b"abc", k=entropy.randrange(1, 7))) for _ in range(count)}
        keys = SortedSet[bytes]()
        for key in entropy.sample(sorted(all_keys), len(all_keys)):
            keys.add(key)
        prefix = bytes(entropy.choices(b"abcd", k=entropy.randrange(1, 4)))
        taken = [key for found in keys.take(prefix) for key in found]
        assert taken == sorted(key for key in all_keys if key.startswith(prefix))
        assert all((key in keys) != (key in taken) for key in all_keys)
        kept = sorted(key for key in all_keys if not key.startswith(prefix))
        assert list(keys.since(b"")) == kept
        keys.add(prefix)
        assert list(keys.since(b"")) == sorted([*kept, prefix])


def test_a_change_that_removes_all_tables_of_a_topic_is_no_state_key() -> None:
    assert journal.is_key(journal.key("g", "t", 3))
    assert not journal.is_key(b"t\x00")
    assert not journal.is_key(b"%LMQ%$t$")


def consume_many(driver: Driver, invisible_ms: int) -> None:
    """Let a group lease and settle the message of each of MANY queues of topic t."""
    driver.topic("t", read_queues=MANY, write_queues=MANY)
    for number in range(0, MANY, 100):
        assert isinstance(driver.append([Message("t", b"1", b"", queue_id=at) for at in range(number, number + 100)]), list)
    for number in range(MANY):
        [leased] = driver.lease("g", "t", queue_id=number, invisible_ms=invisible_ms).messages
        assert driver.settle("g", "t", leased) == [None]


def test_a_packed_table_is_freed_at_once_though_its_lease_would_have_ended_later() -> None:
    driver = Driver(LARGE)
    consume_many(driver, 600_000)
    tables = driver.store.parts.ledger.tables
    kept = list(tables.live.values())
    assert len(kept) >= MANY // 2
    driver.clock.run_for(30_000)
    assert (len(tables.live), tables.schedule.count) == (0, 0)
    assert {sys.getrefcount(table) for table in kept} == {3}, "nobody else refers to it"


def test_tables_that_rest_are_packed_and_freed_in_steps() -> None:
    driver = Driver(LARGE)
    consume_many(driver, 600_000)
    ledger = driver.store.parts.ledger
    for _ in ledger.rest():
        pass
    kept = list(ledger.tables.live.values())
    packed = 0
    for _ in ledger.rest():
        # The list, the name and the argument refer to a table, and for the one of this step the generator does.
        gone = [sys.getrefcount(table) for table in kept if table.dropped]
        assert len(gone) <= packed + 1, "one in a step"
        assert sum(count > 3 for count in gone) <= 1
        packed = len(gone)
    assert packed == len(kept) > MANY // 2


def emptied(driver: Driver, topic: str) -> None:
    """Let retention note the next offset of MANY queues of a topic, whose messages are all deleted."""
    keys = [StateChange(EMPTY, f"{topic}\x00{number}".encode(), b"%d" % (number + 5)) for number in range(MANY)]
    driver.call(lambda done: driver.store.parts.appender.add((), keys, done, True))


def offset_of_first(driver: Driver, topic: str, queue_id: int) -> int:
    return driver.send(topic, b"x", queue_id=queue_id)[0].queue_offset


def test_the_next_offsets_of_a_deleted_topic_are_forgotten_in_slices_and_with_one_small_record() -> None:
    driver = Driver(LARGE)
    for topic in ("t", "t2"):
        driver.topic(topic, read_queues=MANY, write_queues=MANY)
        emptied(driver, topic)
    state = driver.store.parts.state
    assert state.size(EMPTY)[0] == 2 * MANY
    before = driver.store.parts.commit.end
    driver.store.metadata.delete_topic("t", lambda _: None)
    assert driver.store.parts.commit.end - before < 1_000
    assert state.size(EMPTY)[0] >= 2 * MANY - 1_024, "of one list of keys at once"
    assert state.keys(EMPTY, b"t\x00", b"", 9) == []
    assert state.get(EMPTY, b"t\x0013") is None
    assert state.get(EMPTY, b"t2\x0013") == b"18"
    driver.topic("t", read_queues=MANY, write_queues=MANY)
    assert offset_of_first(driver, "t", 13) == 0
    assert [cost for cost in state.forget_removed() if cost > STORE_TASK_COST + 1_024] == []
    driver.clock.run_for(5_000)
    assert state.size(EMPTY)[0] == MANY
    assert offset_of_first(driver, "t2", 13) == 18
    for found in (driver.killed(), driver.powered_off(), driver.restarted()):
        assert len(found.store.parts.state.keys(EMPTY, b"", b"", 3 * MANY)) == MANY
        assert (offset_of_first(found, "t", 14), offset_of_first(found, "t2", 14)) == (0, 19)


def test_a_next_offset_of_a_later_topic_stays_while_those_of_the_deleted_one_are_forgotten() -> None:
    driver = Driver(LARGE)
    driver.topic("t", read_queues=MANY, write_queues=MANY)
    emptied(driver, "t")
    driver.store.metadata.delete_topic("t", lambda _: None)
    later = StateChange(EMPTY, b"t\x0013", b"77")
    driver.call(lambda done: driver.store.parts.appender.add((), [later], done, True))
    driver.clock.run_for(5_000)
    for found in (driver, driver.killed()):
        assert found.store.parts.state.keys(EMPTY, b"", b"", 9) == [b"t\x0013"]
        assert found.store.parts.state.get(EMPTY, b"t\x0013") == b"77"


def test_a_next_offset_that_is_being_written_when_its_topic_is_deleted_goes_with_it() -> None:
    driver = Driver.with_topics("t", config=LARGE)
    driver.store.parts.appender.add((), [StateChange(EMPTY, b"t\x000", b"77")], None, True)
    assert driver.call(driver.store.metadata.delete_topic, "t") is None
    driver.topic("t")
    assert offset_of_first(driver, "t", 0) == 0
    assert driver.killed().bounds("t") == (0, 1)
