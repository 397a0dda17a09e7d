"""Rewriting of values before the deletion of their segment: state, leases, next offsets of empty queues, deleted topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from domain.address import TIMER_TOPIC
from domain.message.message import Message
from domain.store.store_ports import StateChange
from domain.topic import lite
from store.appends.append import Appender
from store.checkpoint.snapshot import LEASES, QUEUES, TOPICS, Columns, SnapshotItem
from store.lease.journaled_tables import JournaledTables
from store.log.commit import GroupCommit
from store.log.open_batch import Done
from store.queue import table
from store.queue.index import QueueIndex
from store.queue.queue import Queue, TopicEntry
from store.state.view import DROPPED, EMPTY, TOPIC, StateView

SLICE_TABLES: Final = 256
SLICE_CHANGES: Final = 512
SLICE_BYTES: Final = 256 * 1024
SLICE_LOOKS: Final = 4_096
"""Live lease tables, changes, their bytes, and items looked at in vain, in one turn of what is carried forward."""
STEP_LOOKS: Final = 512
"""Items that a step examines, about."""
SNAPSHOT_TABLES: Final = 128
"""Live lease tables of one step of a snapshot: their values are made one by one."""


@final
class Compaction:
    """Finds the state that retention has to write again, and removes topics and lite queues."""

    def __init__(
        self, commit: GroupCommit, index: QueueIndex, state: StateView, ledger: JournaledTables, appender: Appender
    ) -> None:
        self._commit = commit
        self._index = index
        self._state = state
        self._ledger = ledger
        self._appender = appender

    def keep(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Write the needed values of a segment again; durable before `done`."""
        self._appender.add(messages, changes, done, True)

    def carry(self, base: int) -> Iterator[list[StateChange] | None]:
        """Slices of the values to write again before the deletion of the segments before `base`: leases, state, queues.

        These are values whose newest record stands before `base`, and the next offsets of queues that become empty. The caller
        writes each slice, in order, before it takes the next; None is a slice in which nothing was found. Live lease tables
        are journaled here: the first write after that covers them. Other changes may be made between two slices: nothing
        becomes older by them. Raises StoreError, OSError.
        """
        yield from _slices(self._leases_below(base))
        yield from _slices(self._state_below(base))
        yield from self._topics_below(base)
        yield from _slices(self._stale(base))

    def _leases_below(self, base: int) -> Iterator[list[StateChange] | None]:
        ledger, tables = self._ledger, self._ledger.tables
        for chunk in tables.chunks():
            live = tables.live_in(chunk)
            yield tables.rewritten(chunk, base, self._commit.accepted.base)
            for at in range(0, len(live), SLICE_TABLES):
                ledger.renew(live[at : at + SLICE_TABLES], base)
                ledger.write(self._commit.accepted.base)
                yield None

    def _state_below(self, base: int) -> Iterator[list[StateChange] | None]:
        """Leaves out keys with a newer change that is accepted and not durable yet: the log holds it after `base`."""
        unapplied = self._appender.unapplied
        for items in self._state.anchored_below(base):
            yield [item for item in items if (item.space, item.key) not in unapplied and not self._is_stale(item, base)]

    def _topics_below(self, base: int) -> Iterator[list[StateChange] | None]:
        """Configurations, and the next offsets of queues that become empty; these are marked when that is durable."""
        found: list[StateChange] = []
        ended: list[Queue] = []
        looks = 0
        for entries in self._index.topics.slices():
            for entry in entries:
                if self._index.topics.get(entry.name) is not entry:
                    continue  # it was deleted in a pause
                settings = entry.settings
                looks += 1
                if settings is not None and entry.anchor < base:
                    key = entry.name.encode()
                    if (TOPIC, key) not in self._appender.unapplied:
                        found.append(StateChange(TOPIC, key, settings.value(entry.created_ms)))
                for queue in entry.all_queues() if entry.name != TIMER_TOPIC else ():
                    looks += 1
                    if 0 <= queue.last_position() < base and queue.visible == queue.next and self._index.contains(queue):
                        found.append(StateChange(EMPTY, _empty_key(queue.name, queue.id), b"%d" % queue.next))
                        ended.append(queue)
                    if len(found) >= SLICE_CHANGES or looks >= SLICE_LOOKS:
                        yield found or None
                        _mark(ended, base)
                        found, ended, looks = [], [], 0
        if found:
            yield found
            _mark(ended, base)

    def _stale(self, base: int) -> Iterator[list[StateChange] | None]:
        for space, prefix in ((DROPPED, b""), (EMPTY, lite.PREFIX.encode())):
            keys = self._state.keys(space, prefix, b"", SLICE_CHANGES)
            while keys:
                found: list[StateChange] = []
                for key in keys:
                    value = self._state.get(space, key)
                    if value is not None and self._is_stale(StateChange(space, key, value), base):
                        found.append(StateChange(space, key, None))
                yield found
                keys = self._state.keys(space, prefix, keys[-1] + b"\x00", SLICE_CHANGES)

    def _is_stale(self, item: StateChange, base: int) -> bool:
        """True when neither the log from `base` on nor the index holds anything of a deleted topic or lite topic."""
        if item.value is None or item.space not in (DROPPED, EMPTY):
            return False
        facts = item.value.split(b" ")
        return len(facts) > 1 and int(facts[-2]) <= base and int(facts[-1]) <= self._index.files.segments.first

    def snapshot(self) -> Iterator[list[SnapshotItem] | Columns | None]:
        """SnapshotSource.snapshot: state, topics and queues, lease tables."""
        yield from self._state.snapshot()
        for entries in self._index.topics.slices():
            body, count = table.encode_topics(entries)
            if count:
                yield Columns(TOPICS, body, count)
            yield from self._queue_frames(entries)
        yield self._index.files.last_records.encode()
        ledger, tables = self._ledger, self._ledger.tables
        for chunk in tables.chunks():
            live = tables.live_in(chunk)
            idle = chunk.idle()
            if idle.keys:
                yield Columns(LEASES, idle.encode(), len(idle.keys))
            for at in range(0, len(live), SNAPSHOT_TABLES):
                found = ledger.snapshot(live[at : at + SNAPSHOT_TABLES])
                yield [(base, item, False) for base, item in found] or None

    def _queue_frames(self, entries: Sequence[TopicEntry]) -> Iterator[Columns]:
        rows = table.QueueRows()
        for entry in entries:
            for queues in table.rows_of(entry):
                for queue in queues:
                    rows.add(queue)
                if rows.count >= table.ROWS_MAX:
                    yield Columns(QUEUES, rows.encode(), rows.count)
                    rows = table.QueueRows()
        if rows.count:
            yield Columns(QUEUES, rows.encode(), rows.count)

    def drop_topic(self, topic: str) -> list[StateChange]:
        """Remove a topic's queues and leases; the changes for the log."""
        changes = self._ledger.drop_topic(topic)
        for prefix in (f"{topic}\x00", lite.queue_name(topic, "")):
            # One change for all keys, those included that retention has written and that do not hold yet.
            changes.append(StateChange(EMPTY, prefix.encode(), None))
            self._state.apply(changes[-1], 0)
        self._index.drop_topic(topic, self._commit.accepted.end)
        places = (self._commit.accepted.end, self._index.files.segments.end)
        changes.append(StateChange(DROPPED, topic.encode(), b"%d %d" % places))
        return changes

    def drop_lite_queue(self, queue: Queue) -> StateChange:
        """Remove a lite queue; the change for the log, which is kept while the log holds earlier messages of the lite topic."""
        key = _empty_key(queue.name, 0)
        item = StateChange(EMPTY, key, b"%d %d %d" % (queue.next, self._commit.accepted.end, self._index.files.segments.end))
        self._index.drop(queue)
        self._state.apply(item, self._commit.accepted.base)
        return item


def _slices(steps: Iterable[list[StateChange] | None]) -> Iterator[list[StateChange] | None]:
    """Cut the changes of many steps into slices, each the work of one turn of the loop and one batch of the log.

    steps     each step is a list of changes, which may be empty, or None: the work may be left here for a later turn
    yields    a slice: 1 to SLICE_CHANGES changes in the order of the steps, whose keys and values have SLICE_BYTES bytes, the
              last change excepted, found by steps of at most SLICE_LOOKS looks; None: a turn that found nothing to change
    """
    slice_: list[StateChange] = []
    size = looks = 0
    for found in steps:
        looks += STEP_LOOKS
        for item in found or ():
            slice_.append(item)
            size += len(item.key) + len(item.value or b"")
            if len(slice_) >= SLICE_CHANGES or size >= SLICE_BYTES:
                yield slice_
                slice_, size, looks = [], 0, 0
        if found is None or looks >= SLICE_LOOKS:
            yield slice_ or None
            slice_, size, looks = [], 0, 0
    if slice_:
        yield slice_


def _mark(ended: list[Queue], base: int) -> None:
    """Note that the log holds the next offsets of `ended`: their last messages may be deleted."""
    for queue in ended:
        if queue.last_record < base:
            queue.last_record = -1


def empty_at(state: StateView, topic: str, queue_id: int) -> int:
    """Next offset of a queue whose messages are all deleted; 0 when it never had one."""
    value = state.get(EMPTY, _empty_key(topic, queue_id))
    return 0 if value is None else int(value.split(b" ")[0])


def _empty_key(topic: str, queue_id: int) -> bytes:
    return f"{topic}\x00{queue_id}".encode()
