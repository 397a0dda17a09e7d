"""Who pulls from a queue in which nobody receives, and how far: one mark in memory, the ledger knows nothing of it."""

from __future__ import annotations

from typing import Final, final

from domain import limits
from store.lease.table import LeaseTable

PULL_LEASE_MS: Final = 120_000
"""How long a puller keeps what it was given after it last showed that it lives; a member may be silent as long."""

PULL_PROGRESS_MAX: Final = 262_144
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

    def become_leases(self, table: LeaseTable, end: int, now: int) -> None:
        """Somebody receives: what may be in the member's hands, below `end` of the queue, becomes its leases."""
        pop_ms = table.next_pop_ms(now)
        stop = min(self.end, end, table.floor + limits.LEASES_PER_QUEUE_MAX)
        while table.head < stop:
            table.lease(table.head, pop_ms, now + PULL_LEASE_MS).pulled = True
        table.puller = self.member
        table.renewed_ms = now


@final
class PullProgressTable:
    """All marks, and what each member pulls from, marked or leased."""

    __slots__ = ("_places", "_progress")

    def __init__(self) -> None:
        self._progress: dict[Place, PullProgress] = {}
        self._places: dict[tuple[str, str], dict[Place, None]] = {}

    def get(self, place: Place) -> PullProgress | None:
        """The mark on a queue."""
        return self._progress.get(place)

    def put(self, place: Place, progress: PullProgress) -> None:
        """`progress.member` pulls from `place`. Beyond PULL_PROGRESS_MAX the oldest progress is forgotten."""
        if len(self._progress) >= PULL_PROGRESS_MAX:
            del self._progress[next(iter(self._progress))]
        self._progress[place] = progress
        self.add_queue(progress.member, place)

    def drop(self, place: Place) -> PullProgress | None:
        """Take the progress of a queue away."""
        return self._progress.pop(place, None)

    def add_queue(self, member: str, place: Place) -> None:
        """`member` pulls from `place`."""
        self._places.setdefault((place[0], member), {})[place] = None

    def queues_of(self, group: str, member: str) -> list[Place]:
        """Places that a member pulls from."""
        return list(self._places.get((group, member), ()))

    def remove_queue(self, member: str, place: Place) -> None:
        """`member` pulls from `place` no more."""
        places = self._places.get((place[0], member))
        if places is not None:
            places.pop(place, None)
            if not places:
                del self._places[place[0], member]
        progress = self._progress.get(place)
        if progress is not None and progress.member == member:
            del self._progress[place]
