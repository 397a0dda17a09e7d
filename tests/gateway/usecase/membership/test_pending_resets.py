"""Pending resets: members are sent to the offset of a reset, and their reports from before it are not stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.usecase.membership.pending_resets import PENDING_NS, RESETS_MAX, PendingResets
from tests.simulation.kit.clock import VirtualClock

PENDING_MS = PENDING_NS // 1_000_000


def resets_to(offset: int, most: int = RESETS_MAX) -> tuple[VirtualClock, PendingResets]:
    """A pending reset of queue 0 of topic `t` for group `g`."""
    clock = VirtualClock()
    resets = PendingResets(clock, most)
    resets.put("g", "t", 0, offset)
    return clock, resets


def test_without_a_reset_a_member_reads_and_reports_where_it_is() -> None:
    resets = PendingResets(VirtualClock())
    assert resets.required_offset("g", "t", 0, 7) is None
    assert not resets.is_stale("g", "t", 0, 7)


def test_a_member_is_sent_to_the_offset_until_it_reads_there() -> None:
    _, resets = resets_to(50)
    assert resets.required_offset("g", "t", 0, 90) == 50
    assert resets.required_offset("g", "t", 0, 91) == 50
    assert resets.required_offset("g", "t", 0, 50) is None
    assert resets.required_offset("g", "t", 0, 60) is None


def test_reports_from_before_the_reset_are_stale() -> None:
    _, resets = resets_to(50)
    assert resets.is_stale("g", "t", 0, 90)
    assert not resets.is_stale("g", "t", 0, 50)
    assert resets.required_offset("g", "t", 0, 50) is None
    assert not resets.is_stale("g", "t", 0, 51)


@pytest.mark.parametrize("place", [("h", "t", 0), ("g", "u", 0), ("g", "t", 1)])
def test_a_reset_concerns_one_group_and_one_queue(place: tuple[str, str, int]) -> None:
    _, resets = resets_to(50)
    assert resets.required_offset(*place, 90) is None
    assert not resets.is_stale(*place, 90)


def test_a_reset_that_no_member_takes_over_ends() -> None:
    clock, resets = resets_to(50)
    clock.run_for(PENDING_MS - 1)
    assert resets.is_stale("g", "t", 0, 90)
    clock.run_for(1)
    assert not resets.is_stale("g", "t", 0, 90)
    assert resets.required_offset("g", "t", 0, 90) is None


def test_the_latest_reset_of_a_queue_holds_and_lasts_its_own_time() -> None:
    clock, resets = resets_to(50)
    clock.run_for(PENDING_MS - 1)
    resets.put("g", "t", 0, 70)
    clock.run_for(PENDING_MS - 1)
    assert resets.required_offset("g", "t", 0, 50) == 70


def test_beyond_the_bound_the_oldest_reset_is_forgotten() -> None:
    _, resets = resets_to(50, 2)
    resets.put("g", "t", 1, 51)
    resets.put("g", "t", 0, 60)
    resets.put("g", "t", 2, 52)
    assert [resets.required_offset("g", "t", queue_id, 0) for queue_id in range(3)] == [60, None, 52]


def test_a_repeated_reset_makes_no_other_one_forgotten() -> None:
    _, resets = resets_to(50, 2)
    resets.put("g", "t", 1, 51)
    resets.put("g", "t", 1, 52)
    assert [resets.required_offset("g", "t", queue_id, 0) for queue_id in range(2)] == [50, 52]


@given(
    st.lists(st.tuples(st.sampled_from(("put", "read", "report", "wait")), st.integers(0, 1), st.integers(0, 3)), max_size=40)
)
def test_resets_agree_with_a_naive_table(steps: list[tuple[str, int, int]]) -> None:
    clock = VirtualClock()
    resets = PendingResets(clock)
    naive: dict[int, tuple[int, int]] = {}
    for verb, queue_id, number in steps:
        now = clock.monotonic_ns()
        naive = {place: (offset, end) for place, (offset, end) in naive.items() if now < end}
        wanted = naive[queue_id][0] if queue_id in naive else None
        if verb == "put":
            resets.put("g", "t", queue_id, number)
            naive[queue_id] = (number, now + PENDING_NS)
        elif verb == "read":
            assert resets.required_offset("g", "t", queue_id, number) == (None if wanted == number else wanted)
            if wanted == number:
                del naive[queue_id]
        elif verb == "report":
            assert resets.is_stale("g", "t", queue_id, number) == (wanted not in (None, number))
        else:
            clock.run_for(number * PENDING_MS / 2)
