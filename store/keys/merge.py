"""Merges sorted rows into one file, a slice of about a millisecond at a time."""

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
    """One merge of neighbouring sources into one run.

    sources   runs or chunks to merge, oldest first
    run       the new run; its footer is not written here
    _at       rows of each source that have been merged
    _block    rows of each source that one step reads
    """

    def __init__(self, disk: Disk, sources: Sequence[Sorted]) -> None:
        """Open the file of the new run, and empty it. Raises OSError."""
        self.sources = sources
        self._at = [0] * len(sources)
        self._block = max(SLICE_ROWS // len(sources), _BLOCK_ROWS_MIN)
        first, last = sources[0], sources[-1]
        name = file_name(first.begin, last.end)
        file = disk.open(name)
        if file.size():
            file.truncate(0)
        count = sum(source.count for source in sources)
        first_ms = min([source.first_ms for source in sources])  # those of a source without rows say nothing
        last_ms = max([source.last_ms for source in sources])
        self.run = Run(name, file, first.begin, last.end, count, first_ms, last_ms)

    def step(self) -> bool:
        """Write the next slice: all rows up to the lowest last row of the blocks read. True when all rows are written.

        Raises OSError.
        """
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
        self.run.append(pack(array("Q", found)))
        return False
