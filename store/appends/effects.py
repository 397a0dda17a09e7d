"""Effects of a batch that has reached its durability level: messages become readable, changes apply, appends are answered.

All of them run: an exception of a listener or an answer is reported and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.store.store_ports import StateChange
from store.appends.append import Appender
from store.checkpoint import snapshot
from store.delay import parking
from store.delay.wheel import Wheel
from store.events import StoreEvents
from store.lease import idle_tables
from store.lease.journaled_tables import JournaledTables
from store.log.commit import GroupCommit
from store.log.open_batch import Effects
from store.log.segment import Segments
from store.queue import table
from store.queue.block import ROWS_MAX
from store.queue.index import QueueIndex
from store.queue.row import ROW_BYTES
from store.reads.listeners import StoreListeners
from store.state import change
from store.state.metadata import Catalogue
from store.state.view import DROPPED, EMPTY, GROUP, LEASE, TOPIC, StateView

_TOPIC: Final = b"@topic"
_DROPPED: Final = b"@dropped"
_LEASE: Final = b"@lease"
_EMPTY: Final = b"@empty"
_TAIL_BYTES: Final = ROWS_MAX * ROW_BYTES


@final
class StateEffects:
    """Applies state changes: to the state view, to metadata and index, and, during recovery, to the lease ledger."""

    def __init__(self, state: StateView, metadata: Catalogue, index: QueueIndex, ledger: JournaledTables) -> None:
        self._state = state
        self._metadata = metadata
        self._index = index
        self._ledger = ledger

    def written(self, changes: Sequence[StateChange], base: int) -> None:
        """Apply the changes of a batch in the segment at `base`. Lease changes were applied before they were written."""
        for item in changes:
            if item.space != LEASE:
                self._apply(item, base)

    def recovered(self, item: StateChange, base: int) -> None:
        """Apply a change that recovery has read from the segment at `base`."""
        if item.space == LEASE:
            self._ledger.apply(item, base)
            return
        self._apply(item, base)
        if item.space == DROPPED and item.value is not None:
            topic, epoch = item.key.decode(), int(item.value.split(b" ")[0])
            entry = self._index.topics.get(topic)
            if entry is None or entry.epoch < epoch:  # else retention has written the change again: the topic is a later one
                self._index.drop_topic(topic, epoch)

    def replay(self, body: bytes, position: int, base: int, topics: bool, others: bool) -> None:
        """Apply the changes of the body of a state record, which begins at `position` of the log in the segment at `base`.

        `topics`: those of topics and their deletions; `others`: all others. A position of -1 is that of a frame of a snapshot.
        A million of them are applied by a start: only the few that need one get an object (change.decode is the reference).
        """
        at, end = 0, len(body)
        replay, metadata, state = self._ledger.replay, self._metadata, self._state
        while at < end:
            cut = at + 1 + body[at]
            space = body[at + 1 : cut]
            is_topic = space == _TOPIC
            of_topics = is_topic or space == _DROPPED
            at = cut + 2 + (body[cut] << 8 | body[cut + 1])
            key = body[cut + 2 : at]
            size = body[at] << 24 | body[at + 1] << 16 | body[at + 2] << 8 | body[at + 3]
            at += 4
            value: bytes | None = None
            place = at
            if size < 1 << 31:
                at += size
                value = body[place:at]
            if not (topics if of_topics else others):
                continue
            if is_topic:
                metadata.configure(key, value, base)
            elif value is not None and space == _LEASE:
                replay.put(key, value, base)
            elif value is not None and space == _EMPTY:
                state.put_value(EMPTY, key, value, base)
            else:
                item = StateChange(space.decode("ascii"), key, value)
                if position >= 0 and change.is_long(item):
                    item.at = position + place
                self.recovered(item, base)

    def load(self, kind: int, body: bytes) -> None:
        """Load a frame of columns of a snapshot."""
        if kind == snapshot.TOPICS:
            table.load_topics(self._index, body, self._metadata.settings.get)
        elif kind == snapshot.QUEUES:
            self._index.load_queues(body)
        elif kind == snapshot.FILES:
            self._index.files.last_records.load(body)
        elif kind == snapshot.LEASES:
            self._ledger.tables.load(idle_tables.decode(body))

    def _apply(self, item: StateChange, base: int) -> None:
        if item.space == TOPIC:
            self._metadata.apply(item, base)
            return
        self._state.apply(item, base)
        if item.space == GROUP:
            self._metadata.apply(item, base)


@final
class BatchEffects:
    """Applies the effects of batches."""

    def __init__(
        self,
        segments: Segments,
        commit: GroupCommit,
        index: QueueIndex,
        appender: Appender,
        state: StateEffects,
        wheel: Wheel,
        listeners: StoreListeners,
        events: StoreEvents,
    ) -> None:
        self._segments = segments
        self._commit = commit
        self._index = index
        self._appender = appender
        self._state = state
        self._wheel = wheel
        self._listeners = listeners
        self._events = events

    def reached(self, effects: Effects) -> None:
        """Apply the effects of a batch that has reached a level, in this order: queues, state, timers, callers, listeners."""
        arrivals = effects.arrivals
        segment = self._segments.at(effects.position)
        base = self._segments.active.base if segment is None else segment.base
        for queue, records in arrivals.items():
            queue.visible += len(records)
            if queue.entry.arrivals is not None and not queue.lite:
                queue.entry.arrivals.note(queue.id)
            if queue.tail is not None and len(queue.tail) >= _TAIL_BYTES and self._commit.faults.refusal() is None:
                try:
                    self._index.write_out(queue)
                except OSError as error:
                    self._commit.faults.failed("a write of the index", error)
        for pending in effects.pending:
            if pending.changes:
                self._events.run("a state change", self._state.written, pending.changes, base)
                self._appender.applied(pending)
        for queue, records in arrivals.items():
            if parking.is_parking_topic(queue.entry.name):
                self._events.run("a timer", self._wheel.arrived, queue, records)
        for pending in effects.pending:
            done, pending.done = pending.done, None
            if done is not None:
                try:
                    done(pending.placed)
                except Exception as error:
                    self._events.fault("the answer to an append", error)
        for queue, records in arrivals.items():
            self._listeners.arrived(queue, records)
