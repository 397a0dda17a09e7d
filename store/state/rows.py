"""State rows: position and size of a long value in the log, as one integer, and the number of rows for each segment."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final, final

_SIZE_BITS: Final = 24
_SIZE_MASK: Final = (1 << _SIZE_BITS) - 1


def pack(position: int, size: int) -> int:
    """The row of a value of `size` bytes, below 16 MiB, at `position` of the log."""
    return position << _SIZE_BITS | size


def unpack(row: int) -> tuple[int, int]:
    """Row -> (position, size)."""
    return row >> _SIZE_BITS, row & _SIZE_MASK


@final
class RowCounts:
    """Counts of rows by the base of the segment that they point into.

    _bases    bases of segments with rows, sorted; the segment of a row is the last base at or before its position
    _counts   base -> number of rows
    """

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._counts: dict[int, int] = {}
        self.total = 0

    def add(self, base: int) -> None:
        """Count a row that points into the segment at `base`."""
        count = self._counts.get(base, 0)
        if count == 0:
            insort(self._bases, base)
        self._counts[base] = count + 1
        self.total += 1

    def base_of(self, position: int) -> int:
        """The base of the segment that holds `position`. A counted row points to `position`."""
        return self._bases[bisect_right(self._bases, position) - 1]

    def remove(self, position: int) -> None:
        """Remove a row that points to `position`."""
        base = self.base_of(position)
        self._counts[base] -= 1
        self.total -= 1
        if self._counts[base] == 0:
            del self._counts[base]
            self._bases.remove(base)

    def any_below(self, base: int) -> bool:
        """True when a row points into a segment before the one at `base`."""
        return bool(self._bases) and self._bases[0] < base
