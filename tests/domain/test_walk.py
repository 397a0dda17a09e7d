"""Walks of one process: a share of them in each turn, one after the other, and those that pause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from domain.turn import WALKS_NS
from domain.walk import PAUSE_NS, STEP_NS, Walks
from tests.simulation.kit.clock import VirtualClock

STEPS = WALKS_NS // STEP_NS


def counted(seen: list[str], name: str, steps: int, pauses: bool = False) -> Iterator[bool]:
    for _ in range(steps):
        seen.append(name)
        yield pauses


def test_walks_take_turns_and_share_a_turn() -> None:
    clock, seen = VirtualClock(), list[str]()
    walks = Walks(clock)
    walks.begin(counted(seen, "a", STEPS))
    walks.begin(counted(seen, "b", STEPS))
    assert seen == ["a"] * STEPS
    assert walks.waiting == 2
    clock.run_for(0)
    assert seen[STEPS:] == ["b"] * STEPS
    clock.run_for(0)
    assert walks.waiting == 0


def test_a_walk_that_pauses_leaves_the_turns_to_others() -> None:
    clock, seen = VirtualClock(), list[str]()
    walks = Walks(clock)
    walks.begin(counted(seen, "slow", 3, pauses=True))
    walks.begin(counted(seen, "fast", 5))
    assert (seen, walks.waiting) == (["slow", *["fast"] * 5], 1)
    clock.run_ns(PAUSE_NS - 1)
    assert seen.count("slow") == 1
    clock.run_ns(1)
    assert (seen.count("slow"), walks.waiting) == (2, 1)
    clock.run_ns(2 * PAUSE_NS)
    assert (seen.count("slow"), walks.waiting) == (3, 0)


def test_a_walk_that_raises_ends_alone() -> None:
    def broken() -> Iterator[None]:
        yield
        raise ValueError("broken")

    clock, seen = VirtualClock(), list[str]()
    walks = Walks(clock)
    with pytest.raises(ValueError, match="broken"):
        walks.begin(broken())
    walks.begin(counted(seen, "a", 3))
    clock.run_for(1)
    assert (seen, walks.waiting) == (["a"] * 3, 0)
