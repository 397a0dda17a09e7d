"""A virtual clock: time moves only when a test moves it, and timers and turns run in a reproducible order.

A process has a clock of its own over it, which ends with the process (`ProcessClock`), and may stand still (`PausableClock`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from domain.ports import Clock, Timer

START_MS = 1_700_000_000_000


class VirtualTimer:
    """A callback that is due at a virtual time."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the callback."""
        self.callback = None


class VirtualClock:
    """The `Clock` port. Callbacks of equal time run in the order in which they were asked for.

    `run_turn` runs what `call_soon` has gathered, and what that gathers in its turn; `run_for` and `run_until` move time from
    timer to timer. `step_wall` makes the wall clock jump while monotonic time goes on.

    now_ns   virtual nanoseconds since the start
    armed    timers that were set so far
    """

    def __init__(self, start_ms: int = START_MS) -> None:
        self.now_ns = 0
        self._wall_offset_ns = start_ms * 1_000_000
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, VirtualTimer]] = []
        self.armed = 0

    def monotonic_ns(self) -> int:
        """Virtual nanoseconds since the start."""
        return self.now_ns

    def wall_ms(self) -> int:
        """Virtual epoch milliseconds."""
        return (self.now_ns + self._wall_offset_ns) // 1_000_000

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> VirtualTimer:
        """Run `callback` when virtual time reaches `when_ns`."""
        if when_ns < self.now_ns:  # noqa: PLR1730 - each event passes here, and max() is a call
            when_ns = self.now_ns
        timer = VirtualTimer(callback)
        self.armed += 1
        heappush(self._timers, (when_ns, self.armed, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` in this turn, after what runs now."""
        self._soon.append(callback)

    def run_turn(self) -> None:
        """Run the callbacks that are due now, without moving time."""
        while self._soon:
            self._soon.popleft()()

    def run_for(self, milliseconds: float) -> None:
        """Let time pass, and run the callbacks that come due."""
        self.run_ns(int(milliseconds * 1_000_000))

    def run_ns(self, by_ns: int) -> None:
        """The same by nanoseconds."""
        end = self.now_ns + by_ns
        self.run_turn()
        while self._timers and self._timers[0][0] <= end:
            self._fire()
        self.now_ns = max(self.now_ns, end)
        self.run_turn()

    def run_until(self, condition: Callable[[], bool], most_ms: float = 60_000) -> None:
        """Let time pass until `condition` is true; AssertionError when it is not within `most_ms`."""
        end = self.now_ns + int(most_ms * 1_000_000)
        self.run_turn()
        while not condition():
            if not self._timers or self._timers[0][0] > end:
                raise AssertionError(f"the condition does not hold after {most_ms} ms of virtual time")
            self._fire()

    def stall(self, milliseconds: float) -> None:
        """Let time pass while no callback can run: the process is blocked."""
        self.now_ns += int(milliseconds * 1_000_000)

    def step_wall(self, milliseconds: int) -> None:
        """Make the wall clock jump."""
        self._wall_offset_ns += milliseconds * 1_000_000

    def _fire(self) -> None:
        when, _, timer = heappop(self._timers)
        if when > self.now_ns:  # noqa: PLR1730
            self.now_ns = when
        callback = timer.callback
        if callback is not None:
            timer.callback = None
            callback()
            if self._soon:
                self.run_turn()


class ProcessClock:
    """`Clock` of one life of a process, over the clock of its machine. `alive`: False, and nothing of it runs any more."""

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self.alive = True

    def monotonic_ns(self) -> int:
        """Clock.monotonic_ns."""
        return self._machine.monotonic_ns()

    def wall_ms(self) -> int:
        """Clock.wall_ms."""
        return self._machine.wall_ms()

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Timer:
        """Clock.call_at."""
        return self._machine.call_at(when_ns, lambda: self._run(callback))

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Clock.call_soon."""
        self._machine.call_soon(lambda: self._run(callback))

    def _run(self, callback: Callable[[], None]) -> None:
        if self.alive:
            callback()


class HeldTimer:
    """A timer of a process that may stand still: it can be cancelled after it was due."""

    __slots__ = ("callback", "timer")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback
        self.timer: Timer | None = None

    def cancel(self) -> None:
        """Timer.cancel."""
        self.callback = None
        if self.timer is not None:
            self.timer.cancel()


class PausableClock(ProcessClock):
    """`Clock` of a process that may be paused, as by SIGSTOP: what is due meanwhile runs, in its order, once it goes on."""

    def __init__(self, machine: Clock) -> None:
        super().__init__(machine)
        self.paused = False
        self._held: deque[HeldTimer] = deque()

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> HeldTimer:
        """Clock.call_at."""
        held = HeldTimer(callback)
        held.timer = self._machine.call_at(when_ns, lambda: self._due(held))
        return held

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Clock.call_soon."""
        held = HeldTimer(callback)
        self._machine.call_soon(lambda: self._due(held))

    def resume(self) -> None:
        """The process runs again."""
        self.paused = False
        if self._held:
            self._machine.call_soon(self._catch_up)

    def _due(self, held: HeldTimer) -> None:
        if not self.alive:
            return
        if self.paused or self._held:
            self._held.append(held)  # behind what waits already: a process meets what has happened in its order
        else:
            self._call(held)

    def _call(self, held: HeldTimer) -> None:
        if held.callback is not None:
            callback, held.callback = held.callback, None
            callback()

    def _catch_up(self) -> None:
        """Run the next callback of those that have waited, each in a turn of its own."""
        if not self.alive or self.paused or not self._held:
            return
        self._call(self._held.popleft())
        if self._held:
            self._machine.call_soon(self._catch_up)


class MachineClock:
    """`Clock` of one machine, over all of its starts.

    rate        seconds of this machine in a true second
    offset_ms   how far its wall clock was ahead of true time at the beginning of the run
    """

    def __init__(self, true: VirtualClock, rate: float = 1.0, offset_ms: int = 0) -> None:
        self.rate = rate
        self.offset_ms = offset_ms
        self._true = true
        self.call_soon = true.call_soon

    def monotonic_ns(self) -> int:
        """Nanoseconds of this machine since the beginning of the run."""
        return int(self._true.monotonic_ns() * self.rate)

    def wall_ms(self) -> int:
        """Its wall clock."""
        true_ns = self._true.monotonic_ns()
        return self._true.wall_ms() + self.offset_ms + int(true_ns * (self.rate - 1.0)) // 1_000_000

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> VirtualTimer:
        """Run `callback` when this machine's clock says `when_ns`."""
        return self._true.call_at(int(when_ns / self.rate) + 1, callback)
