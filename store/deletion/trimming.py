"""Retention by topic: trims topics that keep less than the store, and keeps segments for topics that keep for longer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from store.deletion.read_holds import ReadHolds
from store.queue.index import QueueIndex
from store.queue.queue import Queue, TopicEntry
from store.queue.window import ByteWindow
from store.settings import StoreSettings

_TOGETHER: Final = -1
_SEARCH_ROWS: Final = 32


@final
class Trimming:
    """Trims the topics that have a retention of their own (TopicEntries.own_retention).

    held        True when a topic keeps messages of the segment that `holders` was last called for
    _windows    topic -> queue id, or _TOGETHER for all queues -> counts of bytes; they can be rebuilt
    """

    def __init__(self, index: QueueIndex, config: StoreSettings, holds: ReadHolds) -> None:
        self._index = index
        self._holds = holds
        self._config = config
        self._windows: dict[TopicEntry, dict[int, ByteWindow]] = {}
        self.held = False

    def forget(self) -> None:
        """Forget all counts: the next `steps` counts again."""
        self._windows.clear()

    def log_begins(self, base: int) -> None:
        """The segments before `base` are deleted."""
        self._index.log_start = base

    def steps(self, wall_ms: int) -> Iterator[int]:
        """Trim what is too old or beyond the bytes of its topic; yields the cost of each step, in rows. Raises OSError."""
        yield from self._holds.steps(wall_ms)
        own = self._index.own_retention
        for gone in [entry for entry in self._windows if own.get(entry.name) is not entry or not _bound(entry)]:
            del self._windows[gone]
        for entry in list(own.values()):
            topic = None if entry.settings is None else entry.settings.topic
            if topic is not None and 0 < topic.retention_ms < self._config.retention_ms:
                for queue in list(entry.queues.values()):
                    yield self._trim_before(queue, wall_ms - topic.retention_ms)
            if own.get(entry.name) is entry and _bound(entry):
                yield from self._trim_bytes(entry, _bound(entry))
            yield 1

    def holders(self, end: int, age_ms: int) -> Iterator[int]:
        """Set `held` when a topic that keeps messages for longer than `age_ms` has some before `end` of the log."""
        self.held = False
        for entry in list(self._index.own_retention.values()):
            topic = None if entry.settings is None else entry.settings.topic
            yield 1
            for queue in list(entry.queues.values()) if topic is not None and topic.retention_ms > age_ms else ():
                if self._reaches(queue, end):
                    self.held = True
                    return
                yield _SEARCH_ROWS

    def held_by_readers(self, end: int) -> Iterator[int]:
        """Set `held` when a reader holds messages before `end` of the log; yields the cost of each step, in rows."""
        for cost in self._holds.reach(end):
            if cost < 0:
                self.held = True
                return
            yield cost

    def _reaches(self, queue: Queue, end: int) -> bool:
        """True when `queue` has messages before `end` of the log."""
        if not self._index.contains(queue):
            return False
        self._index.refresh(queue)
        rows = self._index.rows(queue, queue.first, 1) if queue.first < queue.visible else []
        return bool(rows) and rows[0][0] < end

    def _trim_before(self, queue: Queue, oldest_ms: int) -> int:
        """Trim messages stored before `oldest_ms`; lite queues follow at their next refresh. Returns the cost in rows."""
        if not self._index.contains(queue) or queue.first == queue.visible:
            return 1
        self._index.refresh(queue)
        oldest = self._index.rows(queue, queue.first, 1)
        if oldest and oldest[0][3] >= oldest_ms:
            return 1
        end = self._index.search(queue, queue.first, queue.visible, lambda row: row[3] >= oldest_ms)
        end = self._holds.kept(queue.entry.name, queue.id, end)
        if queue.entry.is_lite and end > queue.first:
            rows = self._index.rows(queue, end - 1, 1)
            if rows:
                queue.entry.retained_from = max(queue.entry.retained_from, rows[0][0] + 1)
        self._index.trim(queue, end)
        return _SEARCH_ROWS

    def _trim_bytes(self, entry: TopicEntry, bound: int) -> Iterator[int]:
        """Give every queue of the topic an equal share of `bound` bytes.

        The queues of a LITE topic share the bound, and its lite queues lose the same messages by log position.
        """
        windows = self._windows.setdefault(entry, {})
        used = [queue for queue in entry.queues.values() if queue.first < queue.visible]
        if entry.is_lite:
            window = windows.setdefault(_TOGETHER, ByteWindow(self._index))
            cut = yield from window.steps(used, bound)
            entry.retained_from = max(entry.retained_from, cut)
            return
        for queue in used:
            window = windows.setdefault(queue.id, ByteWindow(self._index))
            yield from window.steps([queue], bound // len(used))
            yield 1


def _bound(entry: TopicEntry) -> int:
    """Bytes that a topic keeps, 0 for no bound."""
    return 0 if entry.settings is None else entry.settings.topic.retention_bytes
