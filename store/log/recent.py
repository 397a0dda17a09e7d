"""The newest part of the log in memory: consumers that keep up, and followers, are served without reads from the disk."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final, final


@final
class TailCache:
    """Records by log position. Above `limit` bytes it forgets the oldest batches.

    first   no record before this position is here
    """

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


RECENT_BYTES: Final = 16 * 1024 * 1024


@final
class RecentBytes:
    """The newest batches and fillers, contiguous, up to `RECENT_BYTES`.

    _parts       the parts, b"" for a forgotten one
    _gone        number of forgotten parts at the begin of the lists
    """

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._parts: list[bytes] = []
        self._bytes = 0
        self._gone = 0

    @property
    def first(self) -> int:
        """Position of the first byte here; -1 without bytes."""
        return self._positions[self._gone] if self._positions else -1

    def add(self, position: int, data: bytes) -> None:
        """Add bytes that were written at `position`, the end of the log."""
        self._positions.append(position)
        self._parts.append(data)
        self._bytes += len(data)
        while self._bytes > RECENT_BYTES and self._gone < len(self._parts) - 1:
            self._bytes -= len(self._parts[self._gone])
            self._parts[self._gone] = b""
            self._gone += 1
        if self._gone > 1_024 and self._gone * 2 > len(self._parts):
            del self._positions[: self._gone]
            del self._parts[: self._gone]
            self._gone = 0

    def read(self, position: int, size: int) -> list[bytes] | None:
        """Parts from `position` on, at most `size` bytes but at least one part; None when no part begins at `position`."""
        at = bisect_right(self._positions, position) - 1
        if at < self._gone or self._positions[at] != position:
            return None
        found: list[bytes] = []
        for part in self._parts[at:]:
            size -= len(part)
            if size < 0 and found:
                break
            found.append(part)
        return found
