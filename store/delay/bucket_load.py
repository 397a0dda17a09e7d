"""The loading of one bucket of timers into memory, a slice of rows at a time."""

from __future__ import annotations

from typing import Final, final

from store.delay import parking
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row

SLICE_ROWS: Final = 4_096
"""Rows that one turn of the loop loads: a few milliseconds."""
AHEAD_MS: Final = 60_000
"""A bucket is loaded this long before its first timer can be due."""


@final
class BucketLoad:
    """The rows of one bucket that were durable when its loading began; later ones are announced by Wheel.arrived.

    base_ms   begin of the bucket in epoch ms; no timer of it is due before
    left      rows not loaded yet
    """

    __slots__ = ("_end", "_index", "_offset", "_queue", "base_ms")

    def __init__(self, index: QueueIndex, queue: Queue) -> None:
        self._index = index
        self._queue = queue
        self._offset = queue.first
        self._end = queue.visible
        self.base_ms = queue.id << parking.BUCKET_BITS

    @property
    def left(self) -> int:
        """Number of rows not loaded yet."""
        return self._end - self._offset

    def rows(self, limit: int) -> list[Row]:
        """The next rows, at most `limit`; passes over one that cannot be found. Raises OSError."""
        found = self._index.rows(self._queue, self._offset, min(limit, self._end - self._offset))
        self._offset += len(found) or 1
        return found
