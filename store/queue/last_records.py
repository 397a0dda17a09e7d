"""Last records: the highest log position that a block in each file of the queue index refers to."""

from __future__ import annotations

from typing import final

from store.checkpoint.columns import ColumnReader, pack
from store.checkpoint.snapshot import FILES, Columns
from store.log.segment import Segments


@final
class LastRecords:
    """The last record of each file.

    positions   base of a file -> the highest log position that a block in it refers to
    """

    def __init__(self, files: Segments) -> None:
        self._files = files
        self.positions: dict[int, int] = {}

    def of(self, base: int) -> int:
        """The highest log position of the file at `base`; 0 when it has no block."""
        return self.positions.get(base, 0)

    def drop(self, base: int) -> None:
        """Forget the file at `base`."""
        self.positions.pop(base, None)

    def note(self, base: int, last: int) -> None:
        """Note a block in the index file at `base` whose last record is at `last` of the log."""
        if last > self.positions.get(base, 0):
            self.positions[base] = last

    def encode(self) -> Columns:
        """The files, and the highest log position in each, as a frame of a snapshot."""
        bases, lasts = list(self.positions), list(self.positions.values())
        return Columns(FILES, pack(bases) + pack(lasts), len(bases))

    def load(self, body: bytes) -> None:
        """Load the frame of `encode`."""
        reader = ColumnReader(body)
        bases, lasts = reader.integers(), reader.integers()
        for row, base in enumerate(bases):
            if self._files.at(base) is not None:
                self.note(base, lasts[row])
