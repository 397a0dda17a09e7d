"""Lite queues: the lite topics under a topic, each a row in the index and a row in the log, leased in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.ports import Clock
from domain.store.store_ports import StateChange
from domain.store.store_request import LeaseRequest, LeaseTerms
from domain.topic import lite
from domain.topic.lite import LiteLeaseResult, LiteListener
from store.appends.writer import StoreWriter
from store.deletion.compaction import Compaction
from store.events import StoreEvents
from store.lease.journaled_tables import JournaledTables
from store.lease.lease_records import LeaseSource
from store.lease.ordered_lease import OrderedLease
from store.lease.table import LeaseTable
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.reads.listeners import StoreListeners
from store.reads.repair_waits import unreadable
from store.reads.startup_queue import StartupQueue
from store.state.view import failure_only

DROPS_MAX: Final = 1_024
"""Lite topics that one call of `drop` removes, with one record of the log."""


@final
class LiteQueueRemoval:
    """Removes lite queues, with the positions and leases of groups on them, in one commit."""

    def __init__(self, ledger: JournaledTables, compaction: Compaction, writer: StoreWriter) -> None:
        self._ledger = ledger
        self._compaction = compaction
        self._writer = writer

    def remove(self, queues: Sequence[Queue], groups: Sequence[str], done: lite.Done) -> None:
        """Remove `queues`, when the store takes that."""

        def changes() -> list[StateChange]:
            found: list[StateChange] = []
            for queue in queues:
                found += self._ledger.drop([(group, queue.name, 0) for group in groups])
                found.append(self._compaction.drop_lite_queue(queue))
            return found

        self._writer.append_made(changes, failure_only(done))


@final
class StoredLiteQueues:
    """`domain.topic.lite.LiteQueues` over the index and the ledger."""

    def __init__(
        self,
        index: QueueIndex,
        ledger: JournaledTables,
        removal: LiteQueueRemoval,
        listeners: StoreListeners,
        source: LeaseSource,
        held: StartupQueue,
        clock: Clock,
        events: StoreEvents,
    ) -> None:
        self._index = index
        self._ledger = ledger
        self._removal = removal
        self._clock = clock
        self._listeners = listeners
        self._source = source
        self._held = held
        self._events = events

    def listen(self, listener: LiteListener) -> None:
        """LiteQueues.listen."""
        self._listeners.lite.append(listener)

    def _queue(self, parent: str, lite_topic: str) -> Queue | None:
        entry = self._index.topics.get(parent)
        queue = None if entry is None or entry.lite_queues is None else entry.lite_queues.get(lite_topic)
        if queue is not None:
            self._index.refresh(queue)
        return queue

    def lease(
        self,
        group: str,
        parent: str,
        names: Sequence[str],
        limit: int,
        invisible_ms: int,
        attempt_id: str,
        done: Callable[[LiteLeaseResult | Failure], None],
    ) -> None:
        """LiteQueues.lease."""
        if self._ledger.refuses(done):
            return
        if self._held.holding:
            self._held.add(self.lease, group, parent, names, limit, invisible_ms, attempt_id, done)
            return
        now = self._clock.wall_ms()
        request = LeaseRequest(group, parent, limit, LeaseTerms(invisible_ms, True, attempt_id))
        call = OrderedLease(self._index, self._source, now, request)
        found: list[tuple[int, Queue, LeaseTable]] = []
        for at, each in enumerate(names):
            try:
                queue = self._queue(parent, each)
                if queue is not None and not self._ledger.tables.is_idle_at((group, queue.name, 0), queue.visible):
                    found.append((at, queue, self._ledger.table(group, queue, False)))
            except (OSError, StoreError) as error:
                call.error = error
        for _, _, table in found:
            call.raise_pop_ms(table)
        changed = []
        looked = len(names)
        for at, queue, table in found:
            if len(call.messages) >= limit:
                looked = at
                break
            try:
                if call.lease_from(table, queue):
                    changed.append(table)
            except (OSError, StoreError) as error:
                call.error = error
                changed.append(table)
        result: LiteLeaseResult | Failure = LiteLeaseResult(call.messages, call.pop_ms, looked)
        waits = False
        if call.error is not None:
            self._events.unreadable(call.error)
            if not call.messages:
                failure = unreadable(call.error, f"{parent} holds a message that cannot be read: {call.error}")
                again = partial(self.lease, group, parent, names, limit, invisible_ms, attempt_id, done)
                waits = self._held.repairs.hold(failure, done, again)
                result = failure
        for table in changed:
            last = table is changed[-1]
            self._ledger.changed(table)
            if last and not waits:
                self._ledger.when_written(done, result)
        if not changed and not waits:
            done(result)

    def uncount(self, group: str, name: str, offset: int) -> None:
        """LiteQueues.uncount."""
        table = self._ledger.tables.get((group, name, 0)) if self._ledger.broken() is None else None
        lease = table.leases.get(offset) if table is not None else None
        if table is not None and lease is not None and lease.attempts > 0:
            lease.attempts -= 1
            table.changed_offsets[offset] = None
            self._ledger.changed(table)

    def names(self, parent: str) -> Iterator[str]:
        """LiteQueues.names."""
        entry = self._index.topics.get(parent)
        return iter(list((entry.lite_queues if entry is not None else None) or ()))

    def count(self, parent: str) -> int:
        """LiteQueues.count."""
        entries = self._index.lite_topics.values() if parent == "" else [self._index.entry(parent)]
        return sum(len(entry.lite_queues) for entry in entries if entry.lite_queues is not None)

    def positions(self) -> int:
        """LiteQueues.positions."""
        return len(self._ledger.tables)

    def newest_ms(self, parent: str, lite_topic: str) -> int:
        """LiteQueues.newest_ms."""
        try:
            queue = self._queue(parent, lite_topic)
        except (OSError, StoreError) as error:
            self._events.unreadable(error)
            return 0
        return 0 if queue is None else self.time_at(parent, lite_topic, queue.visible - 1)

    def time_at(self, parent: str, lite_topic: str, offset: int) -> int:
        """LiteQueues.time_at."""
        try:
            queue = self._queue(parent, lite_topic)
            rows = [] if queue is None or not queue.first <= offset < queue.visible else self._index.rows(queue, offset, 1)
        except (OSError, StoreError) as error:
            self._events.unreadable(error)
            return 0
        return rows[0][3] if rows else 0

    def drop(self, parent: str, names: Sequence[str], groups: Sequence[str], done: lite.Done) -> None:
        """LiteQueues.drop."""
        try:
            queues = [self._queue(parent, each) for each in dict.fromkeys(names[:DROPS_MAX])]
        except (OSError, StoreError) as error:
            self._events.unreadable(error)
            done(Failure(ErrorCode.INTERNAL, f"the index of {parent} cannot be read: {error}"))
            return
        found = [queue for queue in queues if queue is not None and queue.visible == queue.next]
        self._removal.remove(found, groups, done)
