"""Expiry of leases: every lease ends at its time, whatever its table did before, and a dropped table is left alone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from store.lease.expiry import Expiry, LeaseSchedule
from store.lease.table import LeaseTable
from tests.simulation.kit.clock import START_MS, VirtualClock


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
