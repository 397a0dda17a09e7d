"""How much of a count changes in one turn of a virtual clock."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.kit.clock import VirtualClock


def most_in_a_turn(clock: VirtualClock, count: Callable[[], int], to: int) -> int:
    """The largest change of `count` in one turn, until it is `to`. AssertionError when it stands still for a minute."""
    most, before = 0, count()
    while before != to:
        clock.run_until(lambda before=before: count() != before)  # type: ignore[misc]
        most, before = max(most, abs(count() - before)), count()
    return most
