"""Appends messages: they get offsets and become records, index rows and arrivals of the open batch. The hottest loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain.address import TIMER_TOPIC
from domain.delivery import recall
from domain.filter.tag import tag_hash
from domain.message import property as properties
from domain.message.message import Message, Placed
from domain.message.record import encode
from domain.store.store_ports import StateChange
from domain.topic import lite
from store.delay import parking
from store.log.commit import GroupCommit
from store.log.open_batch import Done, OpenBatch, Pending
from store.queue.index import QueueIndex
from store.queue.queue import Queue, TopicEntry
from store.queue.row import ROW
from store.settings import StoreSettings
from store.state import change

_RECORD_BYTES_MAX = 384
_OFFSET_BYTES_MAX = 20
_TAGS_MAX = 16_384


@final
class Appender:
    """Places messages into the open batch of group commit.

    unapplied            (space, key) -> number of changes that are accepted and not durable yet
    _unapplied_flushed   how many of these wait for a sync; changes take effect in log order, so later ones then wait too
    """

    def __init__(
        self,
        commit: GroupCommit,
        index: QueueIndex,
        config: StoreSettings,
        empty_at: Callable[[str, int], int],
        parked: Callable[[int, int], None],
    ) -> None:
        """`empty_at(topic, queue id)` is the next offset of an emptied queue. `parked(position, due ms)` announces a timer."""
        self._commit = commit
        self._index = index
        self._host = config.store_host
        self._broker = config.broker
        self._empty_at = empty_at
        self._parked = parked
        self._tags: dict[bytes, int] = {}
        self.messages = 0
        self.unapplied: dict[tuple[str, bytes], int] = {}
        self._unapplied_flushed = 0

    def add(
        self,
        messages: Sequence[Message],
        changes: Sequence[StateChange],
        done: Done | None,
        flushed: bool,
        placed_at: Callable[[Sequence[Placed]], None] | None = None,
    ) -> None:
        """Append messages and changes; the caller has checked that the store takes them.

        `flushed` lets the answer wait for a sync even where the topics do not ask for it. `placed_at` is called with the places
        before anything is written; it may make the values of `changes` shorter.
        """
        commit = self._commit
        if commit.faults.broken is not None:
            if done is not None:
                done(commit.faults.broken)
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
            if (
                entry.flushed
                or (queue.flushed and queue.visible != queue.next)
                or (entry.is_lite and self._lite_queues_wait(entry, message))
            ):
                flushed = True
            size += len(message.body) + len(message.properties) + _RECORD_BYTES_MAX
            if entry.is_lite:
                size += lite.DISPATCH_MAX * _OFFSET_BYTES_MAX
            queues.append(queue)
        if changes:
            open_batch = commit.accepted.room(size, change.size(changes))
            open_batch.changes.extend(changes)
            flushed = self._will_change(changes, flushed)
        else:
            open_batch = commit.accepted.room(size)
        placed = self._place(messages, queues, open_batch, flushed)
        if placed_at is not None:
            placed_at(placed)
        open_batch.messages.extend(messages)
        effects = open_batch.flushed if flushed else open_batch.page
        local = commit.confirmation is not None and self.is_local(messages)
        effects.pending.append(Pending(done, placed, changes, flushed, open_batch.accepted_ns, local))

    def waits_for_sync(self, messages: Sequence[Message], default: bool) -> bool:
        """True when the topics of `messages` ask for a sync; `default` without messages, and for topics without settings."""
        for message in messages:
            entry = self._index.topics.get(message.topic)
            if default if entry is None else entry.flushed:
                return True
        return default and not messages

    def is_local(self, messages: Sequence[Message]) -> bool:
        """True for messages whose levels need no other replica. A message without a level has the store's default one."""
        for message in messages:
            entry = self._index.topics.get(message.topic)
            if entry is None or entry.settings is None or entry.settings.topic.durability.waits_for_replicas:
                return False
        return len(messages) > 0

    def _will_change(self, changes: Sequence[StateChange], flushed: bool) -> bool:
        """Note that `changes` are accepted and not durable; True when they have to wait for a sync."""
        flushed = flushed or self._unapplied_flushed > 0
        self._unapplied_flushed += flushed
        for item in changes:
            key = (item.space, item.key)
            self.unapplied[key] = self.unapplied.get(key, 0) + 1
        return flushed

    def _place(self, messages: Sequence[Message], queues: list[Queue], open_batch: OpenBatch, flushed: bool) -> list[Placed]:
        """Add records, rows and arrivals of `messages` to the open batch; `queues` holds the queue of each message."""
        arrivals = (open_batch.flushed if flushed else open_batch.page).arrivals
        parts, places = open_batch.parts, open_batch.places
        end = open_batch.end
        # Not the time of the batch, which may have been opened long ago: a search by time must find what is stored after it.
        host, store_ms = self._host, self._commit.accepted.stamp()
        pack = ROW.pack
        index = self._index
        placed: list[Placed] = []
        for at, message in enumerate(messages):  # a strict `zip` is not compiled to a loop
            queue = queues[at]
            offset = queue.next
            lite_queues = self._lite_queues(queue.entry, message) if queue.entry.is_lite else None
            record = encode(message, offset, end, store_ms, host)
            size = len(record)
            stored = message.properties
            tag = self.tag_of(stored)
            place = Placed(queue.id, offset, end, store_ms, message.message_id)
            placed.append(place)
            if queue.entry.name == TIMER_TOPIC:
                due = parking.due_of(stored)
                tag = due & parking.BUCKET_MASK
                self._parked(end, due)
                topic = properties.text(stored, properties.REAL_TOPIC)
                place.recall_handle = recall.handle(topic, self._broker, due, message.message_id)
            tail = queue.tail
            if tail is None:
                index.add(queue, pack(end, size, tag, store_ms))
            else:
                tail += pack(end, size, tag, store_ms)
                queue.next = offset + 1
                index.tail_rows += 1
            queue.flushed = flushed
            if queue in arrivals:
                arrivals[queue].append(record)
            else:
                arrivals[queue] = [record]
            if lite_queues is not None:
                for lite_queue in lite_queues:
                    index.add(lite_queue, pack(end, size, tag, store_ms))
                    lite_queue.flushed = flushed
                    arrivals.setdefault(lite_queue, []).append(record)
            parts.append(record)
            places.append(end)
            end += size
        open_batch.end = self._commit.accepted.end = end
        self.messages += len(placed)
        return placed

    def applied(self, pending: Pending) -> None:
        """Note that the changes of `pending` are durable."""
        self._unapplied_flushed -= pending.flushed
        for item in pending.changes:
            key = (item.space, item.key)
            left = self.unapplied[key] - 1
            if left:
                self.unapplied[key] = left
            else:
                del self.unapplied[key]

    def journal(self, changes: Sequence[StateChange]) -> None:
        """Append changes that are made in memory already, without a callback."""
        if self._commit.faults.broken is None:
            self._commit.accepted.room(0, change.size(changes)).changes.extend(changes)

    def queue(self, topic: str, queue_id: int) -> Queue:
        """One queue; created when it does not exist."""
        entry = self._index.entry(topic)
        return entry.queues.get(queue_id) or self._new_queue(entry, queue_id)

    def _new_queue(self, entry: TopicEntry, queue_id: int) -> Queue:
        return self._index.new_queue(entry, queue_id, self._empty_at(entry.name, queue_id))

    def _lite_queues_wait(self, entry: TopicEntry, message: Message) -> bool:
        """True when earlier messages of a lite queue of `message` wait for a sync."""
        for name in lite.names_in(message.properties, entry.name):
            lite_queue = (entry.lite_queues or {}).get(name)
            if lite_queue is not None and lite_queue.flushed and lite_queue.visible != lite_queue.next:
                return True
        return False

    def _lite_queues(self, entry: TopicEntry, message: Message) -> list[Queue] | None:
        """The lite queues of a message of a LITE topic; adds its offsets there to the properties of the message.

        With the offsets in the record, recovery can rebuild the lite queues from the log (MultiDispatchUtils).
        """
        stored = message.properties
        names = lite.names_in(stored, entry.name)
        if not names:
            return None
        found: list[Queue] = []
        for name in names:
            lite_queue = (entry.lite_queues or {}).get(name)
            if lite_queue is None:
                first = self._empty_at(lite.queue_name(entry.name, name), 0)
                lite_queue = self._index.new_lite_queue(entry, name, first)
            found.append(lite_queue)
        offsets = b",".join([b"%d" % lite_queue.next for lite_queue in found])
        message.properties = stored + properties.INNER_MULTI_QUEUE_OFFSET_START + offsets + properties.ENTRY_END
        return found

    def tag_of(self, stored: bytes) -> int:
        """The tag hash of stored properties, 0 without a tag."""
        at = stored.find(properties.TAGS_START)
        if at < 0:
            return 0
        if at and stored[at - 1] != 2:
            return self._hash(properties.find(stored, properties.TAGS_START))
        value_at = at + len(properties.TAGS_START)
        end = stored.find(b"\x02", value_at)
        return self._hash(stored[value_at:end] if end >= 0 else stored[value_at:])

    def _hash(self, tag: bytes) -> int:
        found = self._tags.get(tag)
        if found is None:
            if len(self._tags) >= _TAGS_MAX:
                self._tags.clear()
            found = self._tags[tag] = tag_hash(tag.decode("utf-8", "replace"))
        return found
