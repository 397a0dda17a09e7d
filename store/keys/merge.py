"""Merging sorted rows into one file, a slice of about a millisecond at a time."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, final

from domain.ports import Disk
from store.keys.row import pack
from store.keys.run import Run, Sorted, file_name

SLICE_ROWS: Final = 8_192
_BLOCK_ROWS_MIN: Final = 64


@final
class Merge:
    """One merge of neighbours, oldest first, into `run`. A slice is all rows up to the least last row of the blocks read."""

    __slots__ = ("_at", "_block", "run", "sources")

    def __init__(self, disk: Disk, sources: Sequence[Sorted]) -> None:
        """Raises OSError."""
        self.sources = sources
        self._at = [0] * len(sources)
        self._block = max(SLICE_ROWS // len(sources), _BLOCK_ROWS_MIN)
        first, last = sources[0], sources[-1]
        name = file_name(first.begin, last.end)
        file = disk.open(name)
        if file.size():
            file.truncate(0)
        count = sum(source.count for source in sources)
        self.run = Run(name, file, first.begin, last.end, count, first.first_ms, last.last_ms)

    def step(self) -> bool:
        """Write the next slice; True when there was none left, and the footer may follow. Raises OSError."""
        blocks: list[tuple[int, array[int]]] = []
        least = -1
        for which, source in enumerate(self.sources):
            at = self._at[which]
            if at < source.count:
                rows = source.rows(at, self._block)
                blocks.append((which, rows))
                if at + len(rows) < source.count and (least < 0 or rows[-1] < least):
                    least = rows[-1]
        if not blocks:
            return True
        found: list[int] = []
        for which, rows in blocks:
            count = len(rows) if least < 0 else bisect_right(rows, least)
            self._at[which] += count
            found += rows[:count]
        found.sort()
        self.run.file.append(pack(array("Q", found)))
        return False
