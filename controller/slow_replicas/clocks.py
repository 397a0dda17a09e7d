"""Deviations of wall clocks from the median of all known clocks, that of the controller included.

Clocks affect only convenience (leases, timers), within the bound that replicas report. Of two clocks, the wrong one is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final, final

from controller.slow_replicas.ejections import Place
from controller.slow_replicas.history import FiguresHistory
from controller.slow_replicas.measure import Excess
from domain.controller.health import UNMEASURED

CLOCKS_MIN: Final = 3
"""Least number of clocks for a comparison."""
NAME: Final = "clock_ms"
"""Name of the excess of a clock: its deviation from the median, negative when it is late."""


@final
class ClockWatch:
    """The deviating clocks, as of the last poll.

    off   replica -> deviation
    """

    __slots__ = ("_own_ms", "off")

    def __init__(self) -> None:
        self.off: dict[Place, Excess] = {}
        self._own_ms: int | None = None

    def ticked(self, wall_ms: int, now_ms: int) -> None:
        """The controller's own clock, and its monotonic time."""
        self._own_ms = wall_ms - now_ms if wall_ms != UNMEASURED else None

    def poll(self, histories: Iterable[tuple[Place, FiguresHistory]]) -> None:
        """Compare the clocks of replicas with recent heartbeats."""
        known = [(place, each.clock_ms, each.skew_ms) for place, each in histories if each.clock_ms is not None]
        clocks = [clock for _, clock, _ in known if clock is not None]
        if self._own_ms is not None:
            clocks.append(self._own_ms)
        self.off = {}
        if len(clocks) < CLOCKS_MIN:
            return
        middle = median(clocks)
        for place, clock, bound in known:
            if clock is not None and bound != UNMEASURED and abs(clock - middle) > bound:
                self.off[place] = Excess(NAME, clock - middle, 0, bound)
