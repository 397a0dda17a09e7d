"""Clocks of processes: what ends with a process, and what waits while it stands still."""

from __future__ import annotations

from tests.simulation.kit.clock import MachineClock, PausableClock, ProcessClock, VirtualClock


def test_nothing_of_a_process_runs_after_its_end() -> None:
    true = VirtualClock()
    process, ran = ProcessClock(true), list[str]()
    process.call_at(1_000_000, lambda: ran.append("timer"))
    process.call_soon(lambda: ran.append("soon"))
    process.alive = False
    true.run_for(5)
    assert ran == []


def test_a_paused_process_meets_what_has_happened_in_its_order_when_it_goes_on() -> None:
    true = VirtualClock()
    process, ran = PausableClock(true), list[str]()
    process.paused = True
    process.call_at(2_000_000, lambda: ran.append("2 ms"))
    cancelled = process.call_at(1_500_000, lambda: ran.append("cancelled"))
    true.call_at(1_000_000, lambda: process.call_soon(lambda: ran.append("arrived at 1 ms")))
    true.run_for(5)
    cancelled.cancel()
    assert ran == []
    process.resume()
    process.call_soon(lambda: ran.append("afterwards"))
    true.run_turn()
    assert ran == ["arrived at 1 ms", "2 ms", "afterwards"]


def test_a_fast_clock_is_ahead_and_its_timers_are_early() -> None:
    true = VirtualClock()
    fast, ran = MachineClock(true, rate=1.25, offset_ms=7), list[int]()
    fast.call_at(10_000_000, lambda: ran.append(true.monotonic_ns()))
    true.run_for(100)
    assert ran == [8_000_001]
    assert fast.monotonic_ns() == 125_000_000
    assert fast.wall_ms() - true.wall_ms() == 7 + 25
