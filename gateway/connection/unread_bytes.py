"""Received bytes of one connection that wait for their turn, and how many of them are handled at once."""

from __future__ import annotations

from typing import final

from gateway.connection.intake import SLICE_BYTES_FIRST, SLICE_BYTES_MAX, SLICE_BYTES_MIN, SLICE_NS


@final
class UnreadBytes:
    """Bytes in the order in which they came, taken in slices that should take SLICE_NS each.

    waits        True while there are any
    slice_bytes  size of the next slice
    """

    __slots__ = ("_at", "_data", "slice_bytes", "waits")

    def __init__(self) -> None:
        self._data = b""
        self._at: int = 0
        self.slice_bytes: int = SLICE_BYTES_FIRST
        self.waits: bool = False

    def add(self, data: bytes) -> None:
        """Append received bytes. Bytes that wait already are copied; few do, since the socket is not read meanwhile."""
        self._data = self._data[self._at :] + data if self.waits else data
        self._at = 0
        self.waits = len(self._data) > 0

    def take(self) -> bytes:
        """Remove the next slice, in the order of arrival: `slice_bytes` bytes, or all that wait when these are no more."""
        data, at = self._data, self._at
        end = at + self.slice_bytes
        if end < len(data):
            self._at = end
            return data[at:end]
        self.clear()
        return data[at:]

    def clear(self) -> None:
        """Remove all bytes."""
        self._data = b""
        self._at = 0
        self.waits = False

    def took(self, size: int, took_ns: int) -> None:
        """To handle `size` bytes took `took_ns`: adapt `slice_bytes`, within SLICE_BYTES_MIN and SLICE_BYTES_MAX."""
        if took_ns > SLICE_NS:
            self.slice_bytes = max(SLICE_BYTES_MIN, min(size, self.slice_bytes) * SLICE_NS // took_ns)
        elif size == self.slice_bytes and size < SLICE_BYTES_MAX and 2 * took_ns <= SLICE_NS:
            self.slice_bytes = min(SLICE_BYTES_MAX, 2 * size)
