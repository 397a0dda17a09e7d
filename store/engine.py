"""The store of one node: log, index, state, leases and timers behind the ports of domain/ports.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain import address, limits
from domain import property as properties
from domain.errors import ErrorCode, Failure, StoreError
from domain.filter.tag import TagFilter
from domain.message import Message
from domain.ports import Clock, Disk, LeaseResult, ReadResult, StateChange, StoreListener
from domain.receipt import Receipt
from domain.record import Record, check
from domain.topic import Topic
from store.append import Appender
from store.config import StoreConfig
from store.delay import parking
from store.lease.ledger import Ledger
from store.lease.table import LeaseTable
from store.log.cache import TailCache
from store.log.commit import Done, Effects, GroupCommit
from store.log.reader import RecordReader
from store.log.segment import FOLDER, Segments
from store.queue.block import ROWS_MAX
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import ROW_BYTES, Row
from store.state.anchors import Anchors
from store.state.metadata import Catalogue
from store.state.view import DROPPED, EMPTY, GROUP, LEASE, TOPIC, StateView

_TAIL_BYTES: Final = ROWS_MAX * ROW_BYTES
_FREE_CHECK_NS: Final = 1_000_000_000


def empty_key(topic: str, queue_id: int) -> bytes:
    """State key of a queue in the space of emptied queues."""
    return f"{topic}\x00{queue_id}".encode()


@final
class LogStore:
    """MessageStore over one log. `metadata` and `state` are its other two faces."""

    def __init__(self, disk: Disk, clock: Clock, config: StoreConfig) -> None:
        self.disk = disk
        self.clock = clock
        self.config = config
        self.segments = Segments(disk, FOLDER)
        self.cache = TailCache(config.cache_bytes)
        self.commit_log = GroupCommit(self.segments, self.cache, clock, config, self._reached, self._before_write)
        self.index = QueueIndex(disk, config, 0)
        self.reader = RecordReader(self.segments, self.cache)
        self.state = StateView()
        self.appender = Appender(self.commit_log, self.index, clock, config, self._empty_at, lambda position, due: None)
        self.metadata = Catalogue(config.durability, self._append_changes, self._drop_topic)
        self.ledger = Ledger(self.index, clock, self, config.broker)
        self.state.connect(self._append_changes)
        self.queue_anchors: Anchors[Queue] = Anchors()
        self._listeners: list[StoreListener] = []
        self._flushed_default = config.durability.value == "flushed"
        self._free_checked_ns = 0
        self._full: Failure | None = None

    def listen(self, listener: StoreListener) -> None:
        """Add a listener."""
        self._listeners.append(listener)

    def append(
        self,
        messages: Sequence[Message],
        done: Done | None,
        changes: Sequence[StateChange] = (),
    ) -> None:
        """MessageStore.append. Messages with a delay are parked; their Placed tells where."""
        failure = self._refusal()
        if failure is None:
            for message in messages:
                if parking.may_be_parked(message.properties):
                    break
            else:
                self.appender.add(messages, changes, done, not messages and self._flushed_default)
                return
        if failure is not None and done is not None:
            done(failure)

    def _append_changes(self, changes: Sequence[StateChange], done: Done | None) -> None:
        failure = self._refusal()
        if failure is None:
            self.appender.add((), changes, done, self._flushed_default)
        elif done is not None:
            done(failure)

    def _refusal(self) -> Failure | None:
        if self.commit_log.broken is not None:
            return self.commit_log.broken
        if self.commit_log.waiting_bytes > self.config.pending_bytes_max:
            return Failure(ErrorCode.OVERLOADED, f"{self.commit_log.waiting_bytes} bytes wait to be written")
        return None

    def _empty_at(self, topic: str, queue_id: int) -> int:
        value = self.state.get(EMPTY, empty_key(topic, queue_id))
        return 0 if value is None else int(value)

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        limit: int,
        max_bytes: int,
        tags: TagFilter | None,
        done: Callable[[ReadResult | Failure], None],
    ) -> None:
        """MessageStore.read."""
        queue = self.index.queue(topic, queue_id)
        first, end = (0, 0) if queue is None else (queue.first, queue.visible)
        if offset < first:
            done(ReadResult("TOO_SMALL", [], first, first, end))
        elif offset > end:
            done(ReadResult("TOO_LARGE", [], end, first, end))
        elif offset == end or queue is None:
            done(ReadResult("EMPTY", [], offset, first, end))
        else:
            try:
                rows = self.index.rows(queue, offset, min(limit, end - offset))
                records = self.reader.fetch(rows)
            except (OSError, StoreError) as error:
                done(Failure(ErrorCode.INTERNAL, str(error)))
                return
            done(ReadResult("FOUND", records, offset + len(records), first, end))

    def _reached(self, effects: Effects) -> None:
        index = self.index
        for queue, records in effects.arrivals.items():
            queue.visible += len(records)
            if queue.tail is not None and len(queue.tail) >= _TAIL_BYTES:
                index.write_out(queue)
        for pending in effects.pending:
            if pending.done is not None:
                pending.done(pending.placed)
        for queue, records in effects.arrivals.items():
            for listener in self._listeners:
                listener.arrived(queue.entry.name, queue.id, records)

    def _before_write(self) -> None:
        self.ledger.journal(self.segments.active.base)

    def _drop_topic(self, topic: str) -> list[StateChange]:
        return []


def open_store(disk: Disk, clock: Clock, config: StoreConfig) -> LogStore:
    """Open the store in `disk`'s data directory, recovering what a crash left. Raises StoreError when a person has to look."""
    return LogStore(disk, clock, config)
