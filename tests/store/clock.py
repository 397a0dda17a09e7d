"""A virtual clock: time moves only when a test moves it, and timers and turns run in a reproducible order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

START_MS = 1_700_000_000_000


class VirtualTimer:
    """A callback that is due at virtual `when_ns`."""

    __slots__ = ("callback", "when_ns")

    def __init__(self, when_ns: int, callback: Callable[[], None]) -> None:
        self.when_ns = when_ns
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the callback."""
        self.callback = None


class VirtualClock:
    """The `Clock` port. Callbacks of equal time run in the order in which they were asked for.

    `run_turn` runs what `call_soon` has gathered, and what that gathers in its turn; `run_for` and `run_until` move time from
    timer to timer. `step_wall` makes the wall clock jump while monotonic time goes on.
    """

    def __init__(self, start_ms: int = START_MS) -> None:
        self._now_ns = 0
        self._wall_offset_ns = start_ms * 1_000_000
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, VirtualTimer]] = []
        self._serial = 0

    def monotonic_ns(self) -> int:
        """Virtual nanoseconds since the start."""
        return self._now_ns

    def wall_ms(self) -> int:
        """Virtual epoch milliseconds."""
        return (self._now_ns + self._wall_offset_ns) // 1_000_000

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> VirtualTimer:
        """Run `callback` when virtual time reaches `when_ns`."""
        timer = VirtualTimer(max(when_ns, self._now_ns), callback)
        self._serial += 1
        heappush(self._timers, (timer.when_ns, self._serial, timer))
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
        end = self._now_ns + int(milliseconds * 1_000_000)
        self.run_turn()
        while self._timers and self._timers[0][0] <= end:
            self._fire()
        self._now_ns = max(self._now_ns, end)
        self.run_turn()

    def run_until(self, condition: Callable[[], bool], most_ms: float = 60_000) -> None:
        """Let time pass until `condition` is true; AssertionError when it is not within `most_ms`."""
        end = self._now_ns + int(most_ms * 1_000_000)
        self.run_turn()
        while not condition():
            if not self._timers or self._timers[0][0] > end:
                raise AssertionError(f"the condition does not hold after {most_ms} ms of virtual time")
            self._fire()

    def stall(self, milliseconds: float) -> None:
        """Let time pass while no callback can run: the process is blocked."""
        self._now_ns += int(milliseconds * 1_000_000)

    def step_wall(self, milliseconds: int) -> None:
        """Make the wall clock jump."""
        self._wall_offset_ns += milliseconds * 1_000_000

    def _fire(self) -> None:
        when, _, timer = heappop(self._timers)
        self._now_ns = max(self._now_ns, when)
        callback, timer.callback = timer.callback, None
        if callback is not None:
            callback()
            self.run_turn()
