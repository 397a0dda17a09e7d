"""Who pulls from a queue in which nobody receives, and how far: one mark in memory, the ledger knows nothing of it."""

from __future__ import annotations

from typing import Final, final

from domain import limits
from store.lease.table import LeaseTable

HOLD_MS: Final = 120_000
"""How long a puller keeps what it was given after it last showed that it lives; a member may be silent as long."""

MARKS_MAX: Final = 262_144
"""Queues of which it is remembered who pulls from them, and how far."""

Place = tuple[str, str, int]
"""(consumer group, topic, queue id)."""


@final
class PullProgress:
    """What `member` was given: from `start` up to `end`, less what it has reported as handled."""

    __slots__ = ("end", "member", "start")

    def __init__(self, member: str, start: int, end: int) -> None:
        self.member = member
        self.start = start
        self.end = end

    def hand_over(self, table: LeaseTable, end: int, now: int) -> None:
        """Somebody receives: what may be in the member's hands, below `end` of the queue, becomes its leases."""
        pop_ms = table.next_pop(now)
        stop = min(self.end, end, table.floor + limits.LEASES_PER_QUEUE_MAX)
        while table.head < stop:
            table.take(table.head, pop_ms, now + HOLD_MS).pulled = True
        table.puller = self.member
        table.renewed_ms = now


@final
class PullProgressTable:
    """All marks, and what each member pulls from, marked or leased."""

    __slots__ = ("_marks", "_places")

    def __init__(self) -> None:
        self._marks: dict[Place, PullProgress] = {}
        self._places: dict[tuple[str, str], dict[Place, None]] = {}

    def get(self, place: Place) -> PullProgress | None:
        """The mark on a queue."""
        return self._marks.get(place)

    def put(self, place: Place, mark: PullProgress) -> None:
        """`mark.member` pulls from `place`. Beyond MARKS_MAX the oldest mark is forgotten."""
        if len(self._marks) >= MARKS_MAX:
            del self._marks[next(iter(self._marks))]
        self._marks[place] = mark
        self.hold(mark.member, place)

    def drop(self, place: Place) -> PullProgress | None:
        """Take the mark of a queue away."""
        return self._marks.pop(place, None)

    def hold(self, member: str, place: Place) -> None:
        """`member` pulls from `place`."""
        self._places.setdefault((place[0], member), {})[place] = None

    def held_by(self, group: str, member: str) -> list[Place]:
        """Places that a member pulls from."""
        return list(self._places.get((group, member), ()))

    def let_go(self, member: str, place: Place) -> None:
        """`member` pulls from `place` no more."""
        places = self._places.get((place[0], member))
        if places is not None:
            places.pop(place, None)
            if not places:
                del self._places[place[0], member]
        mark = self._marks.get(place)
        if mark is not None and mark.member == member:
            del self._marks[place]
