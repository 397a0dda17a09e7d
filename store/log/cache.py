"""The newest records in memory, so that consumers that keep up never touch the disk."""

from __future__ import annotations

from collections import deque
from typing import final


@final
class TailCache:
    """Records by physical offset, at most `limit` bytes of them, forgotten a batch at a time, oldest first."""

    __slots__ = ("_batches", "_bytes", "_limit", "records")

    def __init__(self, limit: int) -> None:
        self.records: dict[int, bytes] = {}
        self._limit = limit
        self._bytes = 0
        self._batches: deque[tuple[int, list[int]]] = deque()

    def add(self, places: list[int], records: list[bytes], size: int) -> None:
        """A batch that has been written: its records, where they stand, and how many bytes they are."""
        self.records.update(zip(places, records, strict=True))
        self._batches.append((size, places))
        self._bytes += size
        while self._bytes > self._limit:
            gone, keys = self._batches.popleft()
            self._bytes -= gone
            for key in keys:
                del self.records[key]
