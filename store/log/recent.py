"""The newest bytes of the log as they were written, from which followers are served without reading the disk."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, final

RECENT_BYTES: Final = 16 * 1024 * 1024


@final
class RecentBytes:
    """Batches and fillers without a hole, the newest ones up to `RECENT_BYTES`.

    _positions   where each of them begins, ascending; `_parts` are their bytes
    _bytes       of all parts
    _gone        parts at the begin of the lists that are forgotten
    """

    __slots__ = ("_bytes", "_gone", "_parts", "_positions")

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._parts: list[bytes] = []
        self._bytes = 0
        self._gone = 0

    @property
    def first(self) -> int:
        """Position of the first byte that is here; -1 while there is none."""
        return self._positions[self._gone] if self._positions else -1

    def add(self, position: int, data: bytes) -> None:
        """Bytes were written at `position`, the end of the log."""
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
        """The parts from `position` on, `size` bytes or less but one at least; None when they do not begin with `position`."""
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
