"""Holds of readers: the lowest offset of each queue that retention by age must keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from domain.store import read_hold
from store.queue.index import QueueIndex
from store.state.view import StateView


@final
class ReadHolds:
    """The holds of readers (domain.store.read_hold), as of the last `steps`.

    _floors   topic -> queue id -> lowest offset that is held
    """

    def __init__(self, state: StateView, index: QueueIndex) -> None:
        self._state = state
        self._index = index
        self._floors: dict[str, dict[int, int]] = {}

    def steps(self, wall_ms: int) -> Iterator[int]:
        """Collect the holds that have not ended; yields the cost of each step, in rows."""
        floors: dict[str, dict[int, int]] = {}
        for key, value in self._state.scan(read_hold.SPACE, b""):
            until_ms, offsets = read_hold.decode(value)
            if until_ms > wall_ms:
                held = floors.setdefault(read_hold.topic_of(key), {})
                for queue_id, offset in offsets.items():
                    held[queue_id] = min(offset, held.get(queue_id, offset))
            yield 1 + len(offsets)
        self._floors = floors

    def kept(self, topic: str, queue_id: int, end: int) -> int:
        """`end`, or the lowest held offset of the queue when that is lower."""
        held = self._floors.get(topic)
        return end if held is None else min(end, held.get(queue_id, end))

    def reach(self, end: int) -> Iterator[int]:
        """Look for held messages before position `end` of the log; yields the cost of each step, in rows, and -1 at a find."""
        for topic, held in self._floors.items():
            for queue_id, offset in held.items():
                queue = self._index.queue(topic, queue_id)
                if queue is None or not self._index.contains(queue):
                    continue
                self._index.refresh(queue)
                first = max(offset, queue.first)
                rows = self._index.rows(queue, first, 1) if first < queue.visible else []
                if rows and rows[0][0] < end:
                    yield -1
                    return
                yield 32
