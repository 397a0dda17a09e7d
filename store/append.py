"""Appending: messages get their offsets and become records, rows and arrivals of the open batch. The store's hottest loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain import property as properties
from domain.address import TIMER_TOPIC
from domain.filter.tag import tag_hash
from domain.message import Message, Placed
from domain.ports import Clock, StateChange
from domain.record import encode
from store.config import StoreConfig
from store.delay import parking
from store.log.commit import Done, GroupCommit, Pending
from store.queue.index import QueueIndex
from store.queue.queue import Queue, TopicEntry
from store.queue.row import ROW
from store.state import change

_RECORD_BYTES_MAX = 384
_TAGS_MAX = 16_384


@final
class Appender:
    """Places messages into the open batch of group commit.

    `unapplied`: keys of state changes that are accepted and not durable yet. Changes take effect in the order of the log,
    so behind one that waits for a sync, all wait for it.
    """

    def __init__(
        self,
        commit: GroupCommit,
        index: QueueIndex,
        clock: Clock,
        config: StoreConfig,
        empty_at: Callable[[str, int], int],
        parked: Callable[[int, int], None],
    ) -> None:
        """`empty_at(topic, queue id)`: where an emptied queue goes on. `parked(position, due ms)`: a timer is coming."""
        self._commit = commit
        self._index = index
        self._clock = clock
        self._host = config.store_host
        self._empty_at = empty_at
        self._parked = parked
        self._tags: dict[bytes, int] = {}
        self.messages = 0
        self.unapplied: dict[tuple[str, bytes], int] = {}
        self._unapplied_flushed = 0

    def add(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done | None, flushed: bool) -> None:
        """Append without asking whether the store may: the caller has. `flushed`: the least level."""
        commit = self._commit
        if commit.broken is not None:
            if done is not None:
                done(commit.broken)
            return
        topics = self._index.topics
        queues: list[Queue] = []
        size = 0
        for message in messages:
            entry = topics.get(message.topic)
            if entry is None:
                entry = self._index.entry(message.topic)
            queue = entry.queues.get(message.queue_id)
            if queue is None:
                queue = self._new_queue(entry, message.queue_id)
            if entry.flushed or (queue.flushed and queue.visible != queue.next):
                flushed = True
            size += len(message.body) + len(message.properties) + _RECORD_BYTES_MAX
            queues.append(queue)
        if changes:
            open_batch = commit.room(size, change.size(changes))
            open_batch.changes.extend(changes)
            if self._unapplied_flushed:
                flushed = True
            self._unapplied_flushed += flushed
            for item in changes:
                key = (item.space, item.key)
                self.unapplied[key] = self.unapplied.get(key, 0) + 1
        else:
            open_batch = commit.room(size)
        effects = open_batch.flushed if flushed else open_batch.page
        arrivals = effects.arrivals
        parts, places = open_batch.parts, open_batch.places
        end = open_batch.end
        host, store_ms = self._host, commit.stamp()
        pack = ROW.pack
        placed: list[Placed] = []
        for message, queue in zip(messages, queues, strict=True):
            record = encode(message, queue.next, end, store_ms, host)
            size = len(record)
            stored = message.properties
            tag = self._tag(stored) if b"TAGS\x01" in stored else 0
            if queue.entry.name == TIMER_TOPIC:
                due = parking.due_of(stored)
                tag = due & parking.BUCKET_MASK
                self._parked(end, due)
            placed.append(Placed(queue.id, queue.next, end, store_ms, message.message_id))
            self._index.add(queue, pack(end, size, tag, store_ms))
            queue.flushed = flushed
            if queue in arrivals:
                arrivals[queue].append(record)
            else:
                arrivals[queue] = [record]
            parts.append(record)
            places.append(end)
            end += size
        open_batch.end = commit.end = end
        self.messages += len(placed)
        effects.pending.append(Pending(done, placed, changes, flushed, self._clock.monotonic_ns()))

    def applied(self, pending: Pending) -> None:
        """The changes of `pending` are durable."""
        self._unapplied_flushed -= pending.flushed
        for item in pending.changes:
            key = (item.space, item.key)
            left = self.unapplied[key] - 1
            if left:
                self.unapplied[key] = left
            else:
                del self.unapplied[key]

    def journal(self, changes: Sequence[StateChange]) -> None:
        """Changes that already hold in memory and that nobody waits for by themselves."""
        if self._commit.broken is None:
            self._commit.room(0, change.size(changes)).changes.extend(changes)

    def _new_queue(self, entry: TopicEntry, queue_id: int) -> Queue:
        queue = entry.queues[queue_id] = Queue(entry, queue_id, self._empty_at(entry.name, queue_id))
        return queue

    def tag_of(self, stored: bytes) -> int:
        """The tag hash of stored properties, 0 without a tag."""
        return self._tag(stored) if b"TAGS\x01" in stored else 0

    def _tag(self, stored: bytes) -> int:
        tag = properties.find(stored, b"TAGS")
        found = self._tags.get(tag)
        if found is None:
            if len(self._tags) >= _TAGS_MAX:
                self._tags.clear()
            found = self._tags[tag] = tag_hash(tag.decode("utf-8", "replace"))
        return found
