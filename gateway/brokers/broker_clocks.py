"""Clocks of the brokers, as their answers show them: the end of a lease is a time by the clock of the broker that gave it."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock

WINDOW_NS: Final = 120 * SECOND_NS
"""Time whose greatest answer counts, with that of the time before. A broker that is silent for twice as long is not known."""


class _Window(NamedTuple):
    """Answers of a broker: wall clock less this node's monotonic time, in nanoseconds, the greatest of each window.

    begun_ns   begin of the present window, monotonic
    before     of the window before
    ahead      of the present one
    """

    begun_ns: int
    before: int
    ahead: int


@final
class BrokerClocks:
    """Wall clocks of brokers by name.

    An answer was under way when it arrives: what it says is never ahead of the broker's clock. So the greatest is the nearest,
    and `wall_ms` is late by the time of the fastest answer, never early.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def heard(self, broker: str, wall_ms: int) -> None:
        """A broker has said just now what its clock shows, in milliseconds since 1970."""
        now = self._clock.monotonic_ns()
        ahead = wall_ms * MILLISECOND_NS - now
        window = self._windows.get(broker)
        if window is None or now - window.begun_ns >= 2 * WINDOW_NS:
            self._windows[broker] = _Window(now, ahead, ahead)
        elif now - window.begun_ns >= WINDOW_NS:
            self._windows[broker] = _Window(now, window.ahead, ahead)
        elif ahead > window.ahead:
            self._windows[broker] = _Window(window.begun_ns, window.before, ahead)

    def wall_ms(self, broker: str) -> int | None:
        """What the clock of a broker shows, in milliseconds since 1970; None: the broker has not said it of late."""
        window = self._windows.get(broker)
        now = self._clock.monotonic_ns()
        if window is None or now - window.begun_ns >= 2 * WINDOW_NS:
            return None
        return (max(window.before, window.ahead) + now) // MILLISECOND_NS

    def forget(self, broker: str) -> None:
        """Another server is the master of this broker now, with a clock of its own."""
        self._windows.pop(broker, None)
