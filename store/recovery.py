"""Recovery: applies the log since the last checkpoint to the state view, the lease tables and the queue index.

checkpoint -> snapshot -> state records up to the checkpoint -> index blocks -> whole batches up to the end -> cut the tail
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, final

from domain import lite
from domain.address import TIMER_TOPIC
from domain.ports import Disk
from domain.record import Record
from domain.store_ports import StateChange
from store import checkpoint
from store.checkpoint import Point
from store.delay import parking
from store.log import batch
from store.log.batch import Header
from store.log.segment import Segments
from store.queue.index import QueueIndex
from store.queue.queue import Queue, TopicEntry
from store.queue.row import ROW
from store.state import change
from store.state.view import DROPPED, EMPTY, StateView

ABORT: Final = "abort"


class Recovered(NamedTuple):
    """What recovery found.

    cut_bytes   bytes of a torn tail that were cut off
    store_ms    newest store time, in epoch ms
    batches     batches read since the checkpoint
    crashed     True when the last run ended without a clean close
    """

    cut_bytes: int
    store_ms: int
    batches: int
    crashed: bool


@final
class LogRecovery:
    """One recovery, while the store opens."""

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        index: QueueIndex,
        state: StateView,
        apply: Callable[[StateChange, int], None],
        tag_of: Callable[[bytes], int],
    ) -> None:
        """`apply(change, base)` applies a state change whose record is in the segment at `base`."""
        self._disk = disk
        self._segments = segments
        self._index = index
        self._state = state
        self._apply = apply
        self._tag_of = tag_of

    def run(self, point: Point) -> Recovered:
        """Apply the log up to its last valid batch, and cut off the rest. Raises StoreError when durable bytes are missing."""
        segments = self._segments
        crashed = self._disk.read_all(ABORT) is not None
        segments.require_whole(point.position)
        if point.state:
            for base, item, row in checkpoint.read_snapshot(self._disk, point.state):
                if row and item.value is not None:
                    self._state.put_row(item.space, item.key, int.from_bytes(item.value, "big"), base)
                else:
                    self._apply(item, base)
        start = max(point.state, segments.first)
        for header, _ in segments.walk(start, False):
            if header.position >= point.position:
                break
            if header.state_at:
                self._state_of(header)
        self._index.log_start = segments.first
        self._index.load(point.position, self._epoch)
        end = max(point.position, segments.first)
        store_ms = max(segment.newest_ms for segment in segments.all)
        batches = 0
        for header, data in segments.walk(end, True):
            self._batch(header, data)
            end = header.position + header.size
            store_ms = max(store_ms, header.written_ms)
            batches += 1
        following = segments.at(end)
        if following is not None and batch.is_filler(segments.read(end, following.end - end)):
            end = following.end
        cut_bytes = segments.end - end
        segments.cut(end, point.position)
        if segments.ends_with_filler():
            segments.roll()
        self._queues()
        return Recovered(cut_bytes, store_ms, batches, crashed)

    def _epoch(self, topic: str) -> int:
        value = self._state.get(DROPPED, topic.encode())
        return 0 if value is None else int(value.split(b" ")[0])

    def _state_of(self, header: Header) -> None:
        data = self._segments.read(header.position + header.state_at, header.size - header.state_at)
        self._changes(data, header.position + header.state_at)

    def _changes(self, data: bytes, position: int) -> None:
        segment = self._segments.at(position)
        assert segment is not None
        state = Record(data)
        for item in change.decode(state.body, position + state.body_at):
            self._apply(item, segment.base)

    def _batch(self, header: Header, data: bytes) -> None:
        at = header.head
        while at < header.size:
            size = int.from_bytes(data[at : at + 4], "big")
            record = data[at : at + size]
            if at == header.state_at:
                self._changes(record, header.position + at)
            else:
                self._row(Record(record), header.position + at, size)
            at += size

    def _row(self, record: Record, position: int, size: int) -> None:
        topic = record.topic
        entry = self._index.entry(topic)
        if position < entry.epoch:
            return
        if entry.is_lite:
            self._add_lite_row(entry, record, position, size)
        offset = record.queue_offset
        queue = entry.queues.get(record.queue_id)
        if queue is None:
            queue = entry.queues[record.queue_id] = Queue(entry, record.queue_id, offset)
        if offset < queue.next:
            return
        self._skip_to(queue, offset)
        stored = record.properties
        tag = parking.due_of(stored) & parking.BUCKET_MASK if topic == TIMER_TOPIC else self._tag_of(stored)
        self._index.add(queue, ROW.pack(position, size, tag, record.store_ms))
        queue.visible = queue.next

    def _skip_to(self, queue: Queue, offset: int) -> None:
        """Continue `queue` at `offset`: the messages before it are deleted."""
        if offset > queue.next:
            self._index.trim(queue, queue.next)
            self._index.forget_tail(queue)
            queue.first = queue.next = queue.tail_first = offset

    def _add_lite_row(self, entry: TopicEntry, record: Record, position: int, size: int) -> None:
        """Add the row of a message to its lite queue, whose name and offset are in the record."""
        stored = record.properties
        offset = lite.offset_in(stored)
        lite_topic = lite.name_in(stored)
        if offset < 0 or not lite_topic:
            return
        queue = (entry.lite_queues or {}).get(lite_topic)
        if queue is None:
            queue = self._index.new_lite_queue(entry, lite_topic, offset)
        if offset < queue.next:
            return
        self._skip_to(queue, offset)
        self._index.add(queue, ROW.pack(position, size, self._tag_of(stored), record.store_ms))
        queue.visible = queue.next

    def _end_lite_queue(self, entry: TopicEntry, lite_topic: str, end: int) -> None:
        """Trim a lite queue that was dropped, or emptied by retention, at offset `end`; drop it when it is empty."""
        queue = (entry.lite_queues or {}).get(lite_topic)
        if queue is not None:
            self._index.trim(queue, min(end, queue.next))
            if queue.first == queue.next:
                self._index.drop(queue)

    def _queues(self) -> None:
        """Create the queues whose messages are all deleted: they continue at their next offset (`@empty`)."""
        for key, value in self._state.scan(EMPTY, b""):
            topic, queue_id = key.decode().split("\x00")
            parent, lite_topic = lite.split(topic)
            if lite_topic:
                self._end_lite_queue(self._index.entry(parent), lite_topic, int(value.split(b" ")[0]))
                continue
            entry = self._index.entry(topic)
            if int(queue_id) not in entry.queues:
                entry.queues[int(queue_id)] = Queue(entry, int(queue_id), int(value))
