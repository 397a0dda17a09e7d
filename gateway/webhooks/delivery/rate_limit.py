"""The rate of one sink: so many deliveries a minute, with a second's worth of them at once."""

from __future__ import annotations

from typing import Final, final

from domain.limits import SECOND_NS

BURST_NS: Final = SECOND_NS
"""A rate may be exceeded by what belongs to this time."""
MINUTE_NS: Final = 60 * SECOND_NS


@final
class SinkRateLimit:
    """When deliveries may begin. Times are monotonic ns.

    per_minute   deliveries a minute; 0: no bound
    """

    __slots__ = ("_next_ns", "per_minute")

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._next_ns = 0

    def bound(self, granted: int, own: int) -> None:
        """The sink grants a rate, and the subscription has its own: the lower one holds, 0 is no bound."""
        self.per_minute = min(own, granted) if own and granted else own or granted

    def due(self, now: int) -> int:
        """When the next delivery may begin; not after `now`: at once."""
        return max(self._next_ns, now - BURST_NS) if self.per_minute else now

    def room(self, now: int, most: int) -> int:
        """How many deliveries may begin now, at most `most`, at least one: to be asked once `due` has passed."""
        if not self.per_minute:
            return most
        return max(1, min(most, (now - self.due(now)) * self.per_minute // MINUTE_NS + 1))

    def began(self, now: int) -> None:
        """A delivery begins."""
        if self.per_minute:
            self._next_ns = self.due(now) + MINUTE_NS // self.per_minute
