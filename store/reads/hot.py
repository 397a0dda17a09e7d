"""Hot queues: no message of theirs is deleted, and all of them are in the newest part of the log."""

from __future__ import annotations

from typing import final

from store.log.commit import GroupCommit
from store.queue.index import QueueIndex
from store.queue.queue import Queue


@final
class HotLog:
    """The newest `hot_bytes` of the log."""

    def __init__(self, index: QueueIndex, commit: GroupCommit, hot_bytes: int) -> None:
        self._index = index
        self._commit = commit
        self._hot_bytes = hot_bytes

    def contains(self, queue: Queue) -> bool:
        """True when no message of `queue` is deleted, and the first one is in the hot part of the log."""
        rows = self._index.rows(queue, queue.first, 1) if queue.first == 0 or queue.lite else []
        return bool(rows) and self._commit.written - rows[0][0] <= self._hot_bytes

    def start_of(self, queue: Queue, from_first: bool) -> int:
        """The offset at which a group without a position begins: the first message, or the last one of a queue that is not hot.

        `from_first` begins at the first message of any queue.
        """
        return queue.first if from_first or queue.first == queue.visible or self.contains(queue) else queue.visible - 1
