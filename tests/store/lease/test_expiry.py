"""Expiry of leases: each ends at its time, whatever its table did before; a dropped table is left alone; few times are kept."""

from __future__ import annotations

import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from store.lease.expiry import NEAR_MS, Expiry, LeaseSchedule
from store.lease.table import LeaseTable
from tests.simulation.kit.clock import START_MS, VirtualClock

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000


class Stage:
    """A virtual clock, its expiry, and the (group, topic) pairs whose leases have ended."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.freed: list[tuple[str, str]] = []
        self.schedule = LeaseSchedule()
        self.expiry = Expiry(self.clock, self.schedule, lambda group, topic: self.freed.append((group, topic)), lambda _: None)

    def table(self, *ends_ms: int, topic: str = "t") -> LeaseTable:
        """A scheduled table with one lease for each end, in milliseconds from the start."""
        table = LeaseTable("g", topic, 0, 0)
        for offset, end_ms in enumerate(ends_ms):
            table.lease(offset, START_MS + offset, START_MS + end_ms)
        self.expiry.schedule(table)
        return table


def free_offsets(table: LeaseTable) -> list[int]:
    return [offset for offset, lease in table.leases.items() if lease.free]


def test_a_lease_ends_at_its_time_and_not_before() -> None:
    stage = Stage()
    table = stage.table(5_000)
    stage.clock.run_for(4_999)
    assert (free_offsets(table), stage.freed) == ([], [])
    stage.clock.run_for(1)
    assert (free_offsets(table), stage.freed, stage.expiry.expired) == ([0], [("g", "t")], 1)


def test_a_group_hears_once_of_all_its_queues() -> None:
    stage = Stage()
    stage.table(1_000, 1_000)
    stage.table(1_000)
    stage.table(1_000, topic="u")
    stage.clock.run_for(1_000)
    assert stage.freed == [("g", "t"), ("g", "u")]
    assert stage.expiry.expired == 4


def test_an_extended_lease_does_not_end_at_its_old_time() -> None:
    stage = Stage()
    table = stage.table(1_000)
    assert table.extend(0, START_MS, START_MS, START_MS + 3_000) is None
    stage.expiry.schedule(table)
    stage.clock.run_for(2_999)
    assert stage.freed == []
    stage.clock.run_for(1)
    assert free_offsets(table) == [0]


def test_a_settled_lease_frees_nobody() -> None:
    stage = Stage()
    table = stage.table(1_000)
    assert table.settle(0, START_MS) is None
    stage.clock.run_for(5_000)
    assert (stage.freed, stage.expiry.expired) == ([], 0)


def test_no_lease_ends_after_the_stop() -> None:
    stage = Stage()
    stage.table(1_000)
    stage.expiry.stop()
    stage.clock.run_for(5_000)
    assert stage.freed == []


def test_a_wall_clock_that_jumps_forward_ends_leases_within_a_second() -> None:
    stage = Stage()
    stage.table(3_600_000)
    stage.clock.step_wall(3_600_000)
    stage.clock.run_for(1_000)
    assert stage.freed == [("g", "t")]


def test_a_wall_clock_that_jumps_back_ends_no_lease_early() -> None:
    stage = Stage()
    stage.table(2_000)
    stage.clock.step_wall(-10_000)
    stage.clock.run_for(11_999)
    assert stage.freed == []
    stage.clock.run_for(1_001)
    assert stage.freed == [("g", "t")]


def test_more_tables_than_one_turn_takes_are_all_expired() -> None:
    stage = Stage()
    tables = [stage.table(1_000, topic=str(number)) for number in range(2_100)]
    stage.clock.run_for(1_000)
    assert [free_offsets(table) for table in tables] == [[0]] * 2_100


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60)), max_size=30), st.integers(1, 60))
def test_leases_end_as_in_a_naive_schedule(steps: list[tuple[int, int]], now_s: int) -> None:
    stage = Stage()
    tables = [stage.table(topic=str(number)) for number in range(4)]
    naive: list[list[int]] = [[], [], [], []]
    for which, end_s in steps:
        table = tables[which]
        table.lease(table.head, table.next_pop_ms(START_MS), START_MS + end_s * 1_000)
        stage.expiry.schedule(table)
        naive[which].append(end_s)
    stage.clock.run_for(now_s * 1_000)
    for table, ends_s in zip(tables, naive, strict=True):
        assert free_offsets(table) == [offset for offset, end_s in enumerate(ends_s) if end_s <= now_s]


def table(number: int) -> LeaseTable:
    return LeaseTable("g", "t", number, 0)


def test_a_table_that_is_due_soon_is_taken_at_its_time_and_not_before() -> None:
    schedule, one = LeaseSchedule(), table(0)
    schedule.put(one, NOW + 100, NOW)
    assert schedule.first_ms() == NOW + 100
    assert schedule.take(NOW + 99, 10) == []
    assert schedule.take(NOW + 100, 10) == [one]
    assert (schedule.take(NOW + 100, 10), schedule.count, schedule.first_ms()) == ([], 0, 0)


def test_a_table_that_is_due_late_is_looked_at_before_and_not_much_before() -> None:
    schedule, one = LeaseSchedule(), table(0)
    schedule.put(one, NOW + HOUR_MS, NOW)
    assert NOW + HOUR_MS - NEAR_MS < schedule.first_ms() <= NOW + HOUR_MS


def test_a_table_is_under_one_time_only() -> None:
    schedule, one = LeaseSchedule(), table(0)
    schedule.put(one, NOW + 100, NOW)
    schedule.put(one, NOW + 50, NOW)
    assert schedule.take(NOW + 1_000, 10) == [one]
    assert (schedule.take(NOW + 1_000, 10), schedule.count) == ([], 0)


def test_a_million_leases_of_twelve_hours_have_a_bounded_number_of_times() -> None:
    schedule = LeaseSchedule()
    for number in range(40_000):
        schedule.put(table(number), NOW + number * 1_079 + 1, NOW)
    assert len(schedule._times) <= NEAR_MS + 12 * HOUR_MS // NEAR_MS + 1
    assert schedule.count == 40_000


def test_a_table_that_is_scheduled_and_dropped_again_and_again_leaves_nothing() -> None:
    schedule, one = LeaseSchedule(), table(0)
    before = sys.getrefcount(one)
    for number in range(1_000):
        schedule.put(one, NOW + HOUR_MS + number, NOW + number)
        schedule.remove(one)
    assert sys.getrefcount(one) == before
    assert len(schedule._times) <= 2
    assert schedule.first_ms() == 0


def test_a_turn_takes_no_more_tables_than_it_asks_for() -> None:
    schedule = LeaseSchedule()
    tables = [table(number) for number in range(2_500)]
    for each in tables:
        schedule.put(each, NOW, NOW)
    taken: list[LeaseTable] = []
    while found := schedule.take(NOW, 1_000):
        assert len(found) <= 1_000
        taken += found
    assert set(taken) == set(tables)
    assert len(taken) == len(tables)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(-1, 20_000)), max_size=60), st.integers(0, 20_000))
def test_what_is_due_is_what_a_dictionary_says(steps: list[tuple[int, int]], later: int) -> None:
    schedule = LeaseSchedule()
    tables = [table(number) for number in range(8)]
    naive: dict[int, int] = {}
    for which, wait_ms in steps:
        if wait_ms < 0:
            schedule.remove(tables[which])
            naive.pop(which, None)
        else:
            schedule.put(tables[which], NOW + wait_ms, NOW)
            naive[which] = NOW + wait_ms
    assert schedule.count == len(naive)
    taken: list[int] = []
    while found := schedule.take(NOW + later, 3):
        taken += [each.queue_id for each in found]
    assert {which for which, end_ms in naive.items() if end_ms <= NOW + later} <= set(taken)
    assert {which for which, end_ms in naive.items() if end_ms - NEAR_MS <= NOW + later} >= set(taken)
    assert len(set(taken)) == len(taken)
    assert all(each.expiry_ms == 0 for each in tables if each.queue_id in taken)
