"""Retention: whole segments go when they are old or too many, after what is still needed of them has been written again.

    look -> oldest segment may go? -> checkpoint with snapshot -> copy timers and state forward -> durable -> delete
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Protocol, final

from domain.errors import Failure, StoreError
from domain.message import Message, Placed
from domain.ports import Clock, StateChange
from store.checkpoint import Checkpointer
from store.config import StoreConfig
from store.delay.wheel import BATCH_BYTES, BATCH_MESSAGES, Wheel
from store.log.commit import Done, GroupCommit
from store.log.segment import Segment, Segments
from store.queue.index import QueueIndex
from store.queue.queue import Queue, TopicEntry
from store.queue.row import Row
from store.transaction.book import Book


class Host(Protocol):
    """What retention needs of the store."""

    def keep(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Write what has to outlive its segment."""

    def needed_below(self, base: int) -> list[StateChange]:
        """Live state, and ends of queues that will be empty, of which the newest record stands before `base`."""


@final
class Retention:
    """Decides what may go, and sees to it that nothing that is needed goes with it."""

    def __init__(
        self,
        segments: Segments,
        index: QueueIndex,
        commit: GroupCommit,
        wheel: Wheel,
        book: Book,
        checkpointer: Checkpointer,
        clock: Clock,
        config: StoreConfig,
        host: Host,
    ) -> None:
        self._segments = segments
        self._index = index
        self._commit = commit
        self._wheel = wheel
        self._book = book
        self._checkpointer = checkpointer
        self._clock = clock
        self._config = config
        self._host = host
        self._running = False
        self._last_ns = clock.monotonic_ns()
        self.deleted = 0
        self.copied = 0

    def look(self) -> None:
        """Begin to delete the oldest segment when its time has come."""
        now = self._clock.monotonic_ns()
        early = now - self._last_ns < self._config.retention_check_ms * 1_000_000
        if early or self._running or self._commit.broken is not None:
            return
        self._last_ns = now
        wall_ms = self._clock.wall_ms()
        self._trim_topics(wall_ms)
        self._look(wall_ms)

    def _look(self, wall_ms: int) -> None:
        if not self._may_go(self._segments.all[0], wall_ms):
            return
        if len(self._segments.all) == 1:
            self._commit.roll()
            return
        base = self._segments.all[1].base
        self._running = True
        if min(self._checkpointer.last.position, self._checkpointer.last.state) >= base:
            self._begin(base)
        else:
            self._checkpointer.begin(True, lambda: self._begin(base))

    def _may_go(self, segment: Segment, wall_ms: int) -> bool:
        if segment.end == segment.base:
            return False
        total = self._segments.end - self._segments.first
        if self._config.retention_bytes and total - (segment.end - segment.base) >= self._config.retention_bytes:
            return True
        age = wall_ms - segment.newest_ms
        if age < self._config.retention_ms:
            return False
        return not any(
            topic.topic is not None
            and topic.topic.retention_ms > age
            and any(self._reaches(queue, segment.end) for queue in topic.queues.values())
            for topic in self._index.topics.values()
        )

    def _reaches(self, queue: Queue, end: int) -> bool:
        """True when `queue` has messages before `end` of the log."""
        self._index.refresh(queue)
        rows = self._index.rows(queue, queue.first, 1) if queue.first < queue.visible else []
        return bool(rows) and rows[0][0] < end

    def _trim_topics(self, wall_ms: int) -> None:
        """Topics that keep less than the store: their oldest messages go out of sight before their segments do."""
        for entry in self._index.topics.values():
            topic = entry.topic
            if topic is None:
                continue
            if topic.retention_ms and topic.retention_ms < self._config.retention_ms:
                oldest_ms = wall_ms - topic.retention_ms
                for queue in entry.queues.values():
                    self._trim_before(queue, oldest_ms)
            if topic.retention_bytes and entry.light:
                self._trim_together(entry, topic.retention_bytes)
            elif topic.retention_bytes:
                self._trim_bytes(entry, topic.retention_bytes)

    def _trim_before(self, queue: Queue, oldest_ms: int) -> None:
        """Messages stored before `oldest_ms` are gone, from light queues too when these are next looked at."""
        end = self._index.search(queue, queue.first, queue.visible, lambda row: row[3] >= oldest_ms)
        if queue.entry.light and end > queue.first:
            rows = self._index.rows(queue, end - 1, 1)
            if rows:
                queue.entry.cut = max(queue.entry.cut, rows[0][0] + 1)
        self._index.trim(queue, end)

    def _trim_bytes(self, entry: TopicEntry, bound: int) -> None:
        """Every queue of the topic keeps its share of `bound`, newest messages first."""
        used = [queue for queue in entry.queues.values() if queue.first < queue.visible]
        for queue in used:
            left = bound // len(used)
            offset = queue.visible
            while offset > queue.first and left >= 0:
                start = max(offset - 512, queue.first)
                rows = self._index.rows(queue, start, offset - start)
                for row in reversed(rows):
                    left -= row[1]
                    if left < 0:
                        break
                    offset -= 1
                if len(rows) < 1:
                    break
            self._index.trim(queue, offset)

    def _trim_together(self, entry: TopicEntry, bound: int) -> None:
        """A topic with light queues keeps its newest `bound` bytes, whichever queue they are in: these are cut by position."""
        used = [self._newest(queue) for queue in entry.queues.values() if queue.first < queue.visible]
        left = bound
        for place, size, *_ in merge(*used, key=itemgetter(0), reverse=True):
            left -= size
            if left < 0:
                entry.cut = max(entry.cut, place + 1)
                break
        for queue in entry.queues.values():
            self._index.trim(queue, self._index.search(queue, queue.first, queue.visible, lambda row: row[0] >= entry.cut))

    def _newest(self, queue: Queue) -> Iterator[Row]:
        """The rows of a queue that can be read, newest first."""
        offset = queue.visible
        while offset > queue.first:
            start = max(offset - 512, queue.first)
            rows = self._index.rows(queue, start, offset - start)
            yield from reversed(rows)
            offset = start if rows else queue.first

    def _begin(self, base: int) -> None:
        if not self._wheel.hold():
            self._running = False
            return
        try:
            pending = self._wheel.pending_below(base)
        except (OSError, StoreError):
            self._end()
            return
        self._copy(pending, 0, base)

    def _copy(self, pending: list[tuple[int, Row]], at: int, base: int) -> None:
        """Write again what is needed of the segments before `base`: timers, a batch at a time, then halves, then state."""
        if at == len(pending):
            self._copy_halves(base)
            return
        end, size = at, 0
        while end < len(pending) and end - at < BATCH_MESSAGES and size < BATCH_BYTES:
            size += pending[end][1][1]
            end += 1
        try:
            messages, changes = self._wheel.copies(pending[at:end])
        except (OSError, StoreError):
            self._end()
            return

        def copied(result: list[Placed] | Failure) -> None:
            if isinstance(result, Failure):
                self._end()
                return
            self.copied += len(result)
            self._copy(pending, end, base)

        self._host.keep(messages, changes, copied)

    def _copy_halves(self, base: int) -> None:
        """Then half messages that are undecided; at last state."""
        try:
            messages, changes = self._book.copies(base)
        except (OSError, StoreError):
            self._end()
            return
        if not messages:
            changes = [*self._host.needed_below(base), *self._wheel.voided_below(base)]
            self.copied += len(changes)
            self._host.keep((), changes, lambda result: self._delete(result, base))
            return

        def copied(result: list[Placed] | Failure) -> None:
            if isinstance(result, Failure):
                self._end()
                return
            self.copied += len(result)
            self._copy_halves(base)

        self._host.keep(messages, changes, copied)

    def _delete(self, result: list[Placed] | Failure, base: int) -> None:
        if isinstance(result, Failure):
            self._end()
            return
        while self._segments.first < base:
            self._segments.drop_first()
            self.deleted += 1
        self._index.oldest = base
        try:
            self._index.drop_files(base)
        except OSError as error:
            self._commit.stop("deleting of index files", error)
        self._end()
        if self._commit.broken is None:
            self._look(self._clock.wall_ms())

    def _end(self) -> None:
        self._running = False
        self._wheel.resume()
