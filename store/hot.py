"""Which queues are hot: nothing of them is gone and all of it is in the newest part of the log."""

from __future__ import annotations

from typing import final

from store.log.commit import GroupCommit
from store.queue.index import QueueIndex
from store.queue.queue import Queue


@final
class HotLog:
    """The newest `hot_bytes` of the log."""

    __slots__ = ("_commit", "_hot_bytes", "_index")

    def __init__(self, index: QueueIndex, commit: GroupCommit, hot_bytes: int) -> None:
        self._index = index
        self._commit = commit
        self._hot_bytes = hot_bytes

    def contains(self, queue: Queue) -> bool:
        """True when nothing of the queue is gone and its first message is in the hot part of the log."""
        rows = self._index.rows(queue, queue.first, 1) if queue.first == 0 or queue.lite else []
        return bool(rows) and self._commit.written - rows[0][0] <= self._hot_bytes

    def start_of(self, queue: Queue, from_first: bool) -> int:
        """Where a group without a position begins: the first message, or the last one of a queue that is not hot."""
        return queue.first if from_first or queue.first == queue.visible or self.contains(queue) else queue.visible - 1
