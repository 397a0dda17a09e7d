"""An event loop that is stepped by hand: timers, callbacks and sockets run turn by turn, as the real loop runs them."""

from __future__ import annotations

from collections import deque
from ctypes import c_long
from heapq import heappop

from domain.limits import MILLISECOND_NS
from gateway.runtime.clock import ROUNDS_MAX
from tests.neighbours.calls import Number
from tests.simulation.kit.clock import START_MS, VirtualClock, VirtualTimer

TURN_NS = MILLISECOND_NS // 5
"""Virtual time that passes from turn to turn even if nothing is done."""
CALL_NS = 350
"""Virtual time that a function call takes, of Python or of C: about its time when nothing is compiled."""


class TurnClock(VirtualClock):
    """A `VirtualClock` with turns as of the real loop: work that asks for more work does not end up in one turn.

    As in `gateway.runtime.clock.LoopClock`, callbacks of `call_soon` run in ROUNDS_MAX rounds at most; the others wait for the
    next turn, before which the sockets are polled again. Time passes while the node works: by CALL_NS for each of `calls`.

    calls   function calls of this turn, as far as the node is measured
    """

    def __init__(self, calls: Number | None = None) -> None:
        super().__init__()
        self.calls: Number = c_long(0) if calls is None else calls

    def monotonic_ns(self) -> int:
        """Virtual nanoseconds since the start."""
        return self.now_ns + CALL_NS * self.calls.value

    def wall_ms(self) -> int:
        """Virtual epoch milliseconds."""
        return START_MS + self.monotonic_ns() // MILLISECOND_NS

    def advance(self, by_ns: int = TURN_NS) -> None:
        """Let time pass before the next turn."""
        self.now_ns = self.monotonic_ns() + by_ns
        self.calls.value = 0

    def spend(self, ns: int) -> None:
        """Let work take `ns`."""
        self.now_ns += ns

    def turn(self, by_ns: int = TURN_NS) -> None:
        """One turn without sockets."""
        self.advance(by_ns)
        self.run_due()
        self.run_soon()

    def run_due(self) -> None:
        """Run the timers that are due at the start of the turn, not those that they set."""
        due: list[VirtualTimer] = []
        now = self.monotonic_ns()
        while self._timers and self._timers[0][0] <= now:
            due.append(heappop(self._timers)[2])
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()

    def run_soon(self) -> None:
        """Run what `call_soon` has gathered, ROUNDS_MAX rounds at most."""
        for _ in range(ROUNDS_MAX):
            if not self._soon:
                return
            callbacks, self._soon = self._soon, deque()
            for callback in callbacks:
                callback()
