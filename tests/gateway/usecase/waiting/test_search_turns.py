"""Searches share the turns of the loop."""

from __future__ import annotations

from gateway.usecase.waiting.search_turns import TURN_NS, SearchTurns
from tests.neighbours.loop import TurnClock


def test_searches_take_turns_and_end_theirs_when_its_time_is_over() -> None:
    clock = TurnClock()
    turns = SearchTurns(clock)
    order: list[str] = []

    def search(name: str, parts: int) -> None:
        order.append(name)
        clock.spend(TURN_NS // 2)
        if parts > 1:
            turns.add(lambda: search(name, parts - 1))

    for name in ("a", "b", "c"):
        turns.add(lambda name=name: search(name, 2))  # type: ignore[misc]
    counts: list[int] = []
    while len(order) < 6:
        before = len(order)
        clock.turn()
        counts.append(len(order) - before)
    assert order == ["a", "b", "c", "a", "b", "c"]
    assert max(counts) == 2
    clock.turn()
    assert len(order) == 6


def test_a_part_that_raises_ends_its_search_alone() -> None:
    clock = TurnClock()
    turns = SearchTurns(clock)
    order: list[str] = []

    def fail() -> None:
        raise OSError("simulated")

    turns.add(fail)
    turns.add(lambda: order.append("b"))
    try:
        clock.turn()
    except OSError:
        order.append("raised")
    clock.turn()
    assert order == ["raised", "b"]
