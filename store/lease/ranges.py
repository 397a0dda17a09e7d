"""A set of offsets stored as ranges, for the settled offsets above the floor."""

from __future__ import annotations

from bisect import bisect_right
from typing import final


@final
class Ranges:
    """Disjoint half-open ranges in ascending order: `starts` and exclusive `ends`. Invariant: two neighbours never touch."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def __len__(self) -> int:
        return len(self.starts)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self.starts, offset) - 1
        return at >= 0 and offset < self.ends[at]

    def around(self, offset: int) -> tuple[int, int] | None:
        """Range (start, end) that holds `offset`, or None."""
        at = bisect_right(self.starts, offset) - 1
        return (self.starts[at], self.ends[at]) if at >= 0 and offset < self.ends[at] else None

    def count_from(self, offset: int) -> int:
        """Number of offsets of the set that are `offset` or above."""
        at = bisect_right(self.ends, offset)
        return sum(self.ends[at:]) - sum(self.starts[at:]) - max(0, offset - self.starts[at] if at < len(self.starts) else 0)

    def add(self, start: int, end: int) -> None:
        """Add the offsets of [start, end); merges the ranges that it overlaps or touches."""
        starts, ends = self.starts, self.ends
        low = bisect_right(starts, start) - 1
        if low < 0 or ends[low] < start:
            low += 1
        high = low
        while high < len(starts) and starts[high] <= end:
            start = min(start, starts[high])
            end = max(end, ends[high])
            high += 1
        starts[low:high] = [start]
        ends[low:high] = [end]

    def pop_from(self, offset: int) -> int:
        """Remove all offsets below `offset` and the range that holds `offset`.

        Returns the lowest offset not below `offset` that is not in the set.
        """
        starts, ends = self.starts, self.ends
        at = bisect_right(starts, offset)
        if at and ends[at - 1] > offset:
            offset = ends[at - 1]
        del starts[:at]
        del ends[:at]
        return offset
