"""Lease tables as stored bytes: the layout, what a value of changes holds, and what a value does to older state."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from store.lease import journal
from store.lease.table import LeaseTable

NAME = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=20)


def table_at(floor: int) -> LeaseTable:
    return LeaseTable("g", "t", 3, floor)


def leased(count: int, floor: int = 10, pop_ms: int = 1_000, end_ms: int = 2_000) -> LeaseTable:
    """A table whose first `count` offsets are leased by one call, with everything journaled."""
    table = table_at(floor)
    for offset in range(floor, floor + count):
        table.lease(offset, pop_ms, end_ms)
    journal.changed_value(table)
    return table


def copy_of(table: LeaseTable) -> LeaseTable:
    """The table that a restart reads from the whole value of `table`."""
    copy = LeaseTable(table.group, table.topic, table.queue_id, 0)
    journal.apply(copy, journal.whole_value(table))
    journal.recovered(copy)
    return copy


@given(NAME, NAME, st.integers(-1, 1 << 31))
def test_a_key_comes_back_as_group_topic_and_queue(group: str, topic: str, queue_id: int) -> None:
    assert journal.parse_key(journal.key(group, topic, queue_id)) == (group, topic, queue_id)


def test_the_tables_of_a_topic_are_neighbours() -> None:
    keys = sorted(journal.key(group, topic, queue_id) for group in "ab" for topic in "xy" for queue_id in (0, 1))
    assert [journal.parse_key(key)[1] for key in keys] == ["x"] * 4 + ["y"] * 4


def test_an_idle_value_has_the_documented_layout() -> None:
    value = journal.idle_value(7, 9, ordered=False)
    assert value == struct.pack(">BqqqIIH", 1, 7, 7, 9, 0, 0, 0)
    assert journal.idle_value(7, 9, ordered=True) == b"\x03" + value[1:]


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.booleans())
def test_an_idle_value_equals_the_whole_value_of_an_idle_table(floor: int, pop_ms: int, ordered: bool) -> None:
    table = table_at(floor)
    table.pop_ms = pop_ms
    table.ordered = ordered
    assert journal.is_idle(table)
    assert journal.whole_value(table) == journal.idle_value(floor, pop_ms, ordered)


def test_leases_of_one_call_take_one_entry() -> None:
    value = journal.whole_value(leased(100))
    front = struct.pack(">BqqqIIH", 1, 10, 110, 1_000, 1, 0, 0)
    assert value == front + struct.pack(">qIqqIq", 10, 100, 1_000, 2_000, 1, 1_000)


def test_leases_that_differ_take_entries_of_their_own() -> None:
    table = leased(3)
    assert table.extend(11, 1_000, 1_000, 5_000) is None
    copy = copy_of(table)
    assert {offset: lease.end_ms for offset, lease in copy.leases.items()} == {10: 2_000, 11: 5_000, 12: 2_000}


def test_a_restart_keeps_who_holds_a_lease_and_how_long() -> None:
    table = leased(4)
    table.leases[10].pulled = True
    table.lease(11, 1_001, 9_000).fleeting = True
    table.lease(12, 1_002, 9_000).pulled = True
    copy = copy_of(table)
    found = {at: (each.attempts, each.pop_ms, each.end_ms, each.first_ms) for at, each in copy.leases.items()}
    assert found == {
        10: (1, 1_000, 2_000, 1_000), 11: (2, 1_001, 9_000, 1_000), 12: (2, 1_002, 9_000, 1_000), 13: (1, 1_000, 2_000, 1_000),
    }  # fmt: skip
    assert [(lease.pulled, lease.fleeting) for lease in copy.leases.values()] == [
        (True, False), (False, True), (True, False), (False, False),
    ]  # fmt: skip


def test_a_restart_keeps_the_attempts_of_an_ordered_group_in_order() -> None:
    table = leased(2)
    table.ordered = True
    for attempt, pop_ms in (("second", 3_000), ("first one", 4_000)):
        table.lease(10, pop_ms, 9_000)
        table.remember_attempt(attempt)
    assert list(copy_of(table).attempt_pops.items()) == [("second", 3_000), ("first one", 4_000)]


def test_a_value_of_changes_holds_only_what_has_changed() -> None:
    table = leased(50)
    before = copy_of(table)
    assert table.settle(20, 1_000) is None
    assert table.extend(30, 1_000, 1_500, 8_000) is None
    value, is_whole = journal.changed_value(table)
    assert not is_whole
    assert len(value) == 35 + 40 + 16
    journal.apply(before, value)
    assert journal.whole_value(before) == journal.whole_value(table)


def test_a_value_of_changes_settles_leases_that_a_wide_range_covers() -> None:
    table = leased(3)
    before = copy_of(table)
    table.skip_to(90)
    table.settle(11, 1_000)
    table.settle(12, 1_000)
    value, _ = journal.changed_value(table)
    journal.apply(before, value)
    assert (list(before.leases), before.settled.starts, before.settled.ends) == ([10], [11], [90])


def test_a_value_leaves_out_settled_offsets_below_the_floor() -> None:
    table = leased(10)
    for offset in (10, 11, 15):
        assert table.settle(offset, 1_000) is None
    value, is_whole = journal.changed_value(table)
    assert (is_whole, struct.unpack_from(">BqqqIIH", value)) == (False, (0, 12, 20, 1_000, 0, 1, 0))


def test_the_second_value_of_the_same_change_is_empty() -> None:
    table = leased(5)
    assert table.settle(12, 1_000) is None
    journal.changed_value(table)
    value, is_whole = journal.changed_value(table)
    assert (is_whole, struct.unpack_from(">BqqqIIH", value)) == (False, (0, 10, 15, 1_000, 0, 0, 0))


def test_the_value_after_a_reset_is_whole() -> None:
    table = leased(5)
    before = copy_of(table)
    table.reset(2)
    value, is_whole = journal.changed_value(table)
    assert is_whole
    journal.apply(before, value)
    assert (before.floor, before.head, before.leases) == (2, 2, {})


def test_leases_that_ended_during_the_restart_become_free() -> None:
    table = leased(2)
    assert table.extend(11, 1_000, 1_000, 7_000) is None
    copy = copy_of(table)
    assert copy.shared
    assert copy.next_end_ms() == 2_000
    assert copy.expire(2_000) == [10]
    assert copy.expire(7_000) == [11]
