"""Checks whether a lease call would find a message, without a lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain.errors import StoreError
from domain.ports import Clock
from domain.store.store_request import LeaseRequest, LeaseTerms
from domain.topic import lite
from store.events import StoreEvents
from store.lease.call import LeaseCall
from store.lease.candidates import VISITS_MAX
from store.lease.journaled_tables import JournaledTables
from store.lease.lag import LagReader
from store.lease.lease_records import LeaseSource
from store.lease.ordered_lease import OrderedLease
from store.queue.index import QueueIndex
from store.queue.queue import Queue


@final
class LeasePeek:
    """The `domain.store.outlook.Outlook` port over the lease tables. Creates and changes no table."""

    def __init__(
        self, ledger: JournaledTables, index: QueueIndex, clock: Clock, source: LeaseSource, events: StoreEvents
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._clock = clock
        self._events = events
        self._source = source

    def can_lease(self, group: str, topic: str, queue_id: int, ordered: bool, attempt_id: str) -> bool:
        """Outlook.can_lease."""
        entry = self._index.topics.get(topic)
        if entry is None:
            return False
        now = self._clock.wall_ms()
        request = LeaseRequest(group, topic, 1, LeaseTerms(0, ordered, attempt_id))
        kind = OrderedLease if ordered else LeaseCall
        call = kind(self._index, self._source, now, request)
        candidates = self._ledger.candidates.of(group, entry) if queue_id < 0 else None
        if candidates is not None:
            queues: Sequence[Queue | None] = [entry.queues.get(each) for each in candidates.first(VISITS_MAX)]
        else:
            queues = entry.queues.values() if queue_id < 0 else [entry.queues.get(queue_id)]
        for queue in queues:
            try:
                if queue is not None and self._can_lease(group, queue, call):
                    return True
            except (OSError, StoreError) as error:
                self._events.unreadable(error)
                return True  # the lease call then reports the error
        # Unchecked candidates remain: True, since a lease call visits VISITS_MAX and removes the empty ones.
        return candidates is not None and len(candidates) > VISITS_MAX

    def places(self) -> Sequence[tuple[str, str, int]]:
        """Outlook.places."""
        return [place for place in self._ledger.tables.places() if not place[1].startswith(lite.PREFIX)]

    def places_after(self, place: tuple[str, str, int] | None, limit: int) -> Sequence[tuple[str, str, int]]:
        """Outlook.places_after."""
        tables = self._ledger.tables
        found = tables.places_after(place, limit)
        kept = [each for each in found if not each[1].startswith(lite.PREFIX)]
        while found and not kept:
            found = tables.places_after(found[-1], limit)
            kept = [each for each in found if not each[1].startswith(lite.PREFIX)]
        return kept

    def lags(self, most: int) -> LagReader:
        """Outlook.lags."""
        return LagReader(self._ledger.tables, self._index, self._events, most)

    def delivered_below(self, group: str, topic: str, queue_id: int) -> int:
        """Outlook.delivered_below."""
        place = (group, topic, queue_id)
        table = self._ledger.tables.awake(place)
        floor = self._ledger.tables.floor(place) if table is None else table.head
        progress = self._ledger.pull_progress.get(place)
        queue = self._index.queue(topic, queue_id)
        if queue is None:
            return 0
        return min(max(floor, 0 if progress is None else progress.end), queue.visible)

    def _can_lease(self, group: str, queue: Queue, call: LeaseCall) -> bool:
        self._index.refresh(queue)
        place = (group, queue.name, queue.id)
        table = self._ledger.tables.awake(place)
        if table is None:
            return max(queue.first, self._ledger.tables.floor(place)) < queue.visible
        return call.would_lease(table, queue)
