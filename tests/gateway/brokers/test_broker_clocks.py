"""What brokers say of their clocks: the nearest of what was said of late, forgotten after a while and at another server."""

from __future__ import annotations

from gateway.brokers.broker_clocks import WINDOW_NS, BrokerClocks
from tests.simulation.kit.clock import VirtualClock

WINDOW_MS = WINDOW_NS // 1_000_000


def test_the_fastest_answer_is_believed() -> None:
    clock = VirtualClock()
    clocks = BrokerClocks(clock)
    for late_ms in (40, 3, 250):
        clocks.heard("a", 5_000 + clock.monotonic_ns() // 1_000_000 - late_ms)
        clock.run_for(1_000)
    assert clocks.wall_ms("a") == 5_000 + clock.monotonic_ns() // 1_000_000 - 3
    assert clocks.wall_ms("b") is None


def test_a_clock_that_was_set_back_is_believed_after_two_windows() -> None:
    clock = VirtualClock()
    clocks = BrokerClocks(clock)
    clocks.heard("a", 100_000_000)
    clock.run_for(WINDOW_MS)
    clocks.heard("a", 50_000_000)
    assert clocks.wall_ms("a") == 100_000_000 + WINDOW_MS
    clock.run_for(WINDOW_MS)
    clocks.heard("a", 60_000_000)
    assert clocks.wall_ms("a") == 60_000_000


def test_a_broker_that_is_silent_for_two_windows_and_another_server_are_not_known() -> None:
    clock = VirtualClock()
    clocks = BrokerClocks(clock)
    clocks.heard("a", 100_000_000)
    clocks.heard("b", 100_000_000)
    clocks.forget("b")
    assert clocks.wall_ms("b") is None
    clock.run_for(2 * WINDOW_MS)
    assert clocks.wall_ms("a") is None
