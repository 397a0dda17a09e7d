"""Length of the turns of the event loop, by sampling: a timer that is late has waited for the turn that was under way."""

from __future__ import annotations

from typing import Final, final

from domain.histogram import Histogram
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock, Timer

INTERVAL_NS: Final = 50 * MILLISECOND_NS


@final
class TurnWatch:
    """Samples the delay of a timer twenty times a second, less the millisecond to which timers are rounded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_ns = 0
        self._timer: Timer | None = None
        self.turns = Histogram()

    def start(self) -> None:
        """Sample until `stop`."""
        self._due_ns = self._clock.monotonic_ns() + INTERVAL_NS
        self._timer = self._clock.call_at(self._due_ns, self._sample)

    def stop(self) -> None:
        """Sample no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _sample(self) -> None:
        late_ns = self._clock.monotonic_ns() - self._due_ns - MILLISECOND_NS
        self.turns.add(max(0, late_ns) / SECOND_NS)
        self.start()
