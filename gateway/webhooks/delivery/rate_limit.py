"""Rate limit of one sink: deliveries per minute, with a burst of one second's deliveries."""

from __future__ import annotations

from typing import Final, final

from domain.limits import SECOND_NS

BURST_NS: Final = SECOND_NS
"""Time of which the deliveries may be sent at once."""
MINUTE_NS: Final = 60 * SECOND_NS


@final
class SinkRateLimit:
    """Rate limiter. Times are monotonic ns.

    per_minute   deliveries per minute; 0: unlimited
    """

    __slots__ = ("_next_ns", "per_minute")

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._next_ns = 0

    def bound(self, granted: int, own: int) -> None:
        """Set the rate to the lower of `granted`, by the sink, and `own`, of the subscription; 0 is unlimited."""
        self.per_minute = min(own, granted) if own and granted else own or granted

    def due(self, now: int) -> int:
        """Time at which the next delivery may start; not after `now`: at once."""
        return max(self._next_ns, now - BURST_NS) if self.per_minute else now

    def room(self, now: int, most: int) -> int:
        """Number of deliveries that may start now, from 1 to `most`. Valid only once `due` has passed."""
        if not self.per_minute:
            return most
        return max(1, min(most, (now - self.due(now)) * self.per_minute // MINUTE_NS + 1))

    def began(self, now: int) -> None:
        """Count the start of a delivery."""
        if self.per_minute:
            self._next_ns = self.due(now) + MINUTE_NS // self.per_minute
