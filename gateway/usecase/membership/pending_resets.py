"""Position resets that members have not taken over yet: each member keeps its own position in memory."""

from __future__ import annotations

from typing import Final, final

from domain import limits
from domain.ports import Clock

PENDING_NS: Final = 60 * limits.SECOND_NS
"""Longest time that a reset is pending. Clients take up to 30 s: 10 s for their consumers to end, 20 s to assign queues."""
RESETS_MAX: Final = 65_536
"""Pending resets of a node."""

Place = tuple[str, str, int]
"""(consumer group, topic, queue id)."""


@final
class PendingResets:
    """Offsets at which members have to go on. A reset is pending until a member reads at its offset, at most PENDING_NS.

    While a reset is pending, a member that reads at another offset is sent to the reset one, and other offsets that members
    report are not stored, since they are from before the reset.
    """

    __slots__ = ("_clock", "_most", "_pending")

    def __init__(self, clock: Clock, most: int = RESETS_MAX) -> None:
        """With more than `most` pending resets the oldest is forgotten."""
        self._clock = clock
        self._most = most
        self._pending: dict[Place, tuple[int, int]] = {}

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Members have to go on at `offset`."""
        place = (group, topic, queue_id)
        self._pending.pop(place, None)
        if len(self._pending) >= self._most:
            del self._pending[next(iter(self._pending))]
        self._pending[place] = (offset, self._clock.monotonic_ns() + PENDING_NS)

    def required_offset(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        """The offset at which a reader that asks for `offset` has to go on, None when it may read there."""
        if not self._pending:
            return None
        wanted = self._wanted((group, topic, queue_id))
        if wanted == offset:
            del self._pending[group, topic, queue_id]
            return None
        return wanted

    def is_stale(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """True when a member reports an offset from before a pending reset."""
        if not self._pending:
            return False
        wanted = self._wanted((group, topic, queue_id))
        return wanted is not None and wanted != offset

    def _wanted(self, place: Place) -> int | None:
        found = self._pending.get(place)
        if found is None:
            return None
        if self._clock.monotonic_ns() >= found[1]:
            del self._pending[place]
            return None
        return found[0]
