"""Cache of the newest records: consumers that keep up are served without reads from the disk."""

from __future__ import annotations

from collections import deque
from typing import final


@final
class TailCache:
    """Records by log position. Above `limit` bytes it forgets the oldest batches.

    first   no record before this position is here
    """

    __slots__ = ("_batches", "_bytes", "_limit", "first", "records")

    def __init__(self, limit: int) -> None:
        self.records: dict[int, bytes] = {}
        self.first = 0
        self._limit = limit
        self._bytes = 0
        self._batches: deque[tuple[int, list[int]]] = deque()

    def add(self, places: list[int], records: list[bytes], size: int) -> None:
        """Add a batch that has been written: positions of its records, the records, and the bytes of the batch."""
        if places and not self.records:
            self.first = places[0]
        self.records.update(zip(places, records, strict=True))
        self._batches.append((size, places))
        self._bytes += size
        while self._bytes > self._limit:
            gone, keys = self._batches.popleft()
            self._bytes -= gone
            for key in keys:
                del self.records[key]
            if keys:
                self.first = keys[-1] + 1
