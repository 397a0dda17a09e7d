"""Positions that were set on purpose and that members, who keep their own in memory, have still to take over."""

from __future__ import annotations

from typing import Final, final

from domain import limits
from domain.ports import Clock

STANDS_NS: Final = 60 * limits.SECOND_NS
"""Longer than clients take: they give their consumers 10 s to finish, and find new queues at most 20 s later."""
RESETS_MAX: Final = 65_536

Place = tuple[str, str, int]
"""(consumer group, topic, queue id)."""


@final
class PendingResets:
    """Where members are to go on. One stands until a member reads from there, or for a minute.

    Until then a member that reads elsewhere is sent there, and positions that members report are not taken: they are of before.
    """

    __slots__ = ("_clock", "_standing")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._standing: dict[Place, tuple[int, int]] = {}

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Members are to go on at `offset`. Beyond RESETS_MAX the oldest is forgotten."""
        place = (group, topic, queue_id)
        self._standing.pop(place, None)
        if len(self._standing) >= RESETS_MAX:
            del self._standing[next(iter(self._standing))]
        self._standing[place] = (offset, self._clock.monotonic_ns() + STANDS_NS)

    def instead(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        """Where somebody who wants to read at `offset` has to go on; None: right there."""
        if not self._standing:
            return None
        wanted = self._wanted((group, topic, queue_id))
        if wanted == offset:
            del self._standing[group, topic, queue_id]
            return None
        return wanted

    def is_stale(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """True for a member's report of a position from before."""
        if not self._standing:
            return False
        wanted = self._wanted((group, topic, queue_id))
        return wanted is not None and wanted != offset

    def _wanted(self, place: Place) -> int | None:
        found = self._standing.get(place)
        if found is None:
            return None
        if self._clock.monotonic_ns() >= found[1]:
            del self._standing[place]
            return None
        return found[0]
