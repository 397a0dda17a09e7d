"""The clock of one life of a simulated process: it drifts, stands still with its process, and ends with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tests.store.clock import VirtualClock, VirtualTimer

DRIFT_MAX: float = 100e-6
"""How much faster or slower than true time a clock runs: 100 millionths, twice what a cheap quartz does."""

RUNNING = [""]
"""Name of the machine whose process runs, or has run last."""


class HeldTimer:
    """A timer of a process that may stand still."""

    __slots__ = ("callback", "timer")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback
        self.timer: VirtualTimer | None = None

    def cancel(self) -> None:
        """Timer.cancel."""
        self.callback = None
        if self.timer is not None:
            self.timer.cancel()


class MachineTime:
    """What time it is on one machine, over all of its starts.

    name        of the machine
    rate        seconds of this machine in a true second
    offset_ms   how far its wall clock was ahead of true time at the beginning of the run
    """

    def __init__(self, name: str, true: VirtualClock, rate: float, offset_ms: int) -> None:
        self.name = name
        self.true = true
        self.rate = rate
        self.offset_ms = offset_ms

    def monotonic_ns(self) -> int:
        """Nanoseconds of this machine since the beginning of the run."""
        return int(self.true.monotonic_ns() * self.rate)

    def true_ns(self, own_ns: int) -> int:
        """When this machine's clock will say `own_ns`."""
        return int(own_ns / self.rate) + 1

    def wall_ms(self) -> int:
        """Its wall clock."""
        true_ns = self.true.monotonic_ns()
        return self.true.wall_ms() + self.offset_ms + int(true_ns * (self.rate - 1.0)) // 1_000_000


class ProcessClock:
    """`domain.ports.Clock` of one life of a process: its callbacks wait while it is paused, and never run when it is dead."""

    def __init__(self, time: MachineTime) -> None:
        self._time = time
        self.dead = False
        self.paused = False
        self._held: deque[HeldTimer] = deque()

    def monotonic_ns(self) -> int:
        """Clock.monotonic_ns."""
        return self._time.monotonic_ns()

    def wall_ms(self) -> int:
        """Clock.wall_ms."""
        return self._time.wall_ms()

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> HeldTimer:
        """Clock.call_at."""
        held = HeldTimer(callback)
        held.timer = self._time.true.call_at(self._time.true_ns(when_ns), lambda: self._run(held))
        return held

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Clock.call_soon."""
        held = HeldTimer(callback)
        self._time.true.call_soon(lambda: self._run(held))

    def _run(self, held: HeldTimer) -> None:
        if self.dead:
            return
        if self.paused or self._held:
            self._held.append(held)  # behind what waits already: a process meets what has happened in its order
        else:
            self._call(held)

    def _call(self, held: HeldTimer) -> None:
        if held.callback is not None:
            callback, held.callback = held.callback, None
            RUNNING[0] = self._time.name
            callback()

    def resume(self) -> None:
        """The process runs again."""
        self.paused = False
        if self._held:
            self._time.true.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        """Run the next callback of those that have waited, each in a turn of its own."""
        if self.dead or self.paused or not self._held:
            return
        self._call(self._held.popleft())
        if self._held:
            self._time.true.call_soon(self._catch_up)
