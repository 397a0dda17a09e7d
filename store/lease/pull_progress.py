"""Pull progress: the member that pulls from a queue without receivers, and its offsets. In memory only, never journaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from domain import limits
from store.lease.table import LeaseTable

PULL_LEASE_MS: Final = 120_000
"""Duration of a puller's leases: the silence after which its messages are redelivered."""

PULL_PROGRESS_MAX: Final = 262_144
"""Limit on queues with pull progress; the oldest is forgotten first."""

Place = tuple[str, str, int]
"""(consumer group, topic, queue id)."""


@final
@dataclass(slots=True, eq=False)
class PullProgress:
    """Offsets [start, end) that a member has pulled from one queue."""

    member: str
    start: int
    end: int

    def become_leases(self, table: LeaseTable, end: int, now: int) -> None:
        """Lease the pulled messages below `end` of the queue to the member: a receiver has joined."""
        pop_ms = table.next_pop_ms(now)
        stop = min(self.end, end, table.floor + limits.LEASES_PER_QUEUE_MAX)
        while table.head < stop:
            table.lease(table.head, pop_ms, now + PULL_LEASE_MS).pulled = True
        table.puller = self.member
        table.renewed_ms = now


@final
class PullProgressTable:
    """The pull progress of all queues, and the queues that each member pulls from.

    _progress   place -> pull progress, of queues without receivers
    _places     (group, member) -> places that the member pulls from, with or without receivers
    """

    def __init__(self) -> None:
        self._progress: dict[Place, PullProgress] = {}
        self._places: dict[tuple[str, str], dict[Place, None]] = {}

    def __len__(self) -> int:
        return len(self._progress)

    def get(self, place: Place) -> PullProgress | None:
        """Progress on a queue; None without a puller, or when receivers share the queue."""
        return self._progress.get(place)

    def put(self, place: Place, progress: PullProgress) -> None:
        """Set the progress on a queue. Beyond PULL_PROGRESS_MAX the oldest progress is forgotten."""
        if len(self._progress) >= PULL_PROGRESS_MAX:
            del self._progress[next(iter(self._progress))]
        self._progress[place] = progress
        self.add_queue(progress.member, place)

    def drop(self, place: Place) -> PullProgress | None:
        """Remove and return the progress on a queue, None without one."""
        return self._progress.pop(place, None)

    def add_queue(self, member: str, place: Place) -> None:
        """Record that `member` pulls from `place`."""
        self._places.setdefault((place[0], member), {})[place] = None

    def queues_of(self, group: str, member: str) -> list[Place]:
        """Places that a member pulls from."""
        return list(self._places.get((group, member), ()))

    def remove_queue(self, member: str, place: Place) -> None:
        """Record that `member` no longer pulls from `place`, and drop its progress there."""
        places = self._places.get((place[0], member))
        if places is not None:
            places.pop(place, None)
            if not places:
                del self._places[place[0], member]
        progress = self._progress.get(place)
        if progress is not None and progress.member == member:
            del self._progress[place]
