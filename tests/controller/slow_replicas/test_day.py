"""Hours of a group with noise, bursts and real failures: only what has failed is moved away from, or passed over."""

from __future__ import annotations

from tests.controller.slow_replicas.day import HOUR_S, Day


def test_nothing_but_a_failure_moves_a_leader() -> None:
    counts = Day(2).live(2 * HOUR_S)
    assert counts.false == []
    assert counts.failures > 3
    assert (counts.moves + counts.passed_over, counts.unnoticed) == (counts.failures, 0)
