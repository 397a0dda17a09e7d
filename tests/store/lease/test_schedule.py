"""The schedule of lease tables: nothing is due late, a dropped table is gone at once, and there are few times."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from store.lease.expiry import NEAR_MS, LeaseSchedule
from store.lease.table import LeaseTable

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000


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
