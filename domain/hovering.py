"""A state that may come and go many times a second: when its begin and its end are worth a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import SECOND_NS
from domain.ports import Clock, Timer

SETTLED_NS: Final = 60 * SECOND_NS
"""A state that begins again within this time of its end hovers; it has ended when it has been away for as long."""


@final
class HoveringState:
    """Reports the begin of a state, and its end.

    The begin is reported at once, and so is the end, unless the state hovers: then its end is reported when it has been away
    for SETTLED_NS. However often a state changes, there are two pairs at most when it begins to hover, and one more each time
    after it has been away for so long.

    is_on     True while the state is there
    is_told   True while its begin was the last report
    """

    def __init__(self, clock: Clock, report: Callable[[bool, int], None]) -> None:
        """`report(is_on, times)`: the state has begun, or has ended. `times`: how often it has begun, of one that hovered and
        has been away for SETTLED_NS; else 0."""
        self.is_on = False
        self.is_told = False
        self._clock = clock
        self._report = report
        self._hovers_until = 0
        self._hovers = False
        self._times = 0
        self._timer: Timer | None = None

    def change(self, is_on: bool) -> bool:
        """Take the state as it is now. Returns True when it has changed."""
        if is_on == self.is_on:
            return False
        self.is_on = is_on
        if is_on:
            self._begin()
        elif self._hovers:
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + SETTLED_NS, self._settled)
        else:
            self._end(0)
        return True

    def stop(self) -> None:
        """Report nothing later: whose state it is has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self.stop()
        self._times += 1
        if self.is_told:
            return
        self._hovers = self._clock.monotonic_ns() < self._hovers_until
        self.is_told = True
        self._report(True, 0)

    def _settled(self) -> None:
        self._timer = None
        self._end(self._times)

    def _end(self, times: int) -> None:
        self._hovers_until = self._clock.monotonic_ns() + SETTLED_NS
        self._times = 0
        self.is_told = False
        self._report(False, times)
