"""The queues that recovery builds from the records of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.address import TIMER_TOPIC
from domain.message.record import Record
from domain.topic import lite
from store.delay import parking
from store.log.segment import Segments
from store.queue.index import QueueIndex
from store.queue.queue import Queue, TopicEntry
from store.queue.row import ROW
from store.state.view import EMPTY, StateView


@final
class ReplayedQueues:
    """Adds the rows of records in the order of the log, and steps over what was deleted or lost."""

    def __init__(self, segments: Segments, index: QueueIndex, state: StateView, tag_of: Callable[[bytes], int]) -> None:
        self._segments = segments
        self._index = index
        self._state = state
        self._tag_of = tag_of

    def add(self, record: Record, position: int, size: int) -> None:
        """Add the rows of the record at `position`."""
        topic = record.topic
        entry = self._index.entry(topic)
        if position < entry.epoch:
            return
        if entry.is_lite:
            self._add_lite_rows(entry, record, position, size)
        offset = record.queue_offset
        queue = entry.queues.get(record.queue_id)
        if queue is None:
            queue = self._index.new_queue(entry, record.queue_id, offset)
        if offset < queue.next:
            return
        self._step_to(queue, offset, position)
        stored = record.properties
        tag = parking.due_of(stored) & parking.BUCKET_MASK if topic == TIMER_TOPIC else self._tag_of(stored)
        self._index.add(queue, ROW.pack(position, size, tag, record.store_ms))
        queue.visible = queue.next

    def _step_to(self, queue: Queue, offset: int, position: int) -> None:
        """Continue `queue` at `offset`, whose record is at `position`: the records before are deleted, or lost in a gap."""
        if offset == queue.next:
            return
        last = queue.last_position()
        gap = next((gap for gap in reversed(self._segments.gaps) if last < gap.end and gap.begin < position), None)
        if last >= 0 and gap is not None:
            self._index.add_lost(queue, offset - queue.next, gap.end - 1)
        else:
            self._skip_to(queue, offset)

    def step_over_gaps(self, position: int) -> None:
        """Let no queue give the offset of a lost message again: those without a message behind a gap step over the most that it
        can have held. Gaps before `position`, the checkpoint, are in the index already."""
        for gap in self._segments.gaps:
            if gap.end <= position or not gap.records:
                continue
            for entry in self._index.topics.values():
                for queue in entry.all_queues() if entry.name != TIMER_TOPIC else ():
                    if queue.last_position() < gap.end - 1:
                        self._index.add_lost(queue, gap.records, gap.end - 1)

    def _skip_to(self, queue: Queue, offset: int) -> None:
        """Continue `queue` at `offset`: the messages before it are deleted."""
        if offset > queue.next:
            self._index.trim(queue, queue.next)
            self._index.forget_tail(queue)
            queue.first = queue.next = queue.tail_first = offset

    def _add_lite_rows(self, entry: TopicEntry, record: Record, position: int, size: int) -> None:
        stored = record.properties
        for lite_topic, offset in zip(lite.names_in(stored, entry.name), lite.offsets_in(stored), strict=False):
            queue = (entry.lite_queues or {}).get(lite_topic)
            if queue is None:
                queue = self._index.new_lite_queue(entry, lite_topic, offset)
            if offset >= queue.next:
                self._step_to(queue, offset, position)
                self._index.add(queue, ROW.pack(position, size, self._tag_of(stored), record.store_ms))
                queue.visible = queue.next

    def _end_lite_queue(self, entry: TopicEntry, lite_topic: str, end: int) -> None:
        """Trim a lite queue that was dropped, or emptied by retention, at offset `end`; drop it when it is empty."""
        queue = (entry.lite_queues or {}).get(lite_topic)
        if queue is not None:
            self._index.trim(queue, min(end, queue.next))
            if queue.first == queue.next:
                self._index.drop(queue)

    def create_empty(self) -> None:
        """Create the queues whose messages are all deleted: they continue at their next offset (`@empty`)."""
        for key, value in self._state.scan(EMPTY, b""):
            topic, queue_id = key.decode().split("\x00")
            parent, lite_topic = lite.split(topic)
            if lite_topic:
                self._end_lite_queue(self._index.entry(parent), lite_topic, int(value.split(b" ")[0]))
                continue
            entry = self._index.entry(topic)
            if int(queue_id) not in entry.queues:
                self._index.new_queue(entry, int(queue_id), int(value))
