"""The files of the queue index: blocks of rows of all queues, one behind the other.

A consumer that asks for few rows at a time needs the rows of a group several times: it is read and checked once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from domain.errors import StoreError
from domain.ports import Disk
from store.checkpoint import derived_damage
from store.checkpoint.columns import ColumnReader, pack
from store.checkpoint.derived_damage import DerivedDamageError
from store.checkpoint.snapshot import FILES, Columns
from store.log.segment import Segments, file_name
from store.queue import block
from store.queue.queue import Queue
from store.queue.row import ROW_BYTES

FOLDER: Final = "index"
_HEADER_BYTES_MAX: Final = block.HEADER_BYTES + block.NAME_BYTES_MAX
_READ_BYTES: Final = 16_384


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


GROUPS_MAX: Final = 128
"""Groups in memory, 1.5 KB each."""
_KEPT_MAX: Final = 2
"""Limit on cached groups per call: a reader of more groups does not return for the same ones."""


@final
class RowGroups:
    """The groups of all blocks. A place of the index files is never written twice, so a group never changes.

    _rows   place of a group -> its encoded rows, the group that was read first in front
    """

    def __init__(self, files: Segments) -> None:
        self._files = files
        self._rows: dict[int, bytes] = {}

    def read(self, place: int, count: int) -> bytes | None:
        """Encoded rows of `count` groups that follow each other from `place` on; None when one is damaged. Raises OSError."""
        if count > _KEPT_MAX:
            return block.rows_of(self._files.read(place, count * block.GROUP_BYTES), count)
        rows = self._group(place)
        more = self._group(place + block.GROUP_BYTES) if count == 2 else b""
        return None if rows is None or more is None else rows + more

    def _group(self, place: int) -> bytes | None:
        rows = self._rows.get(place)
        if rows is None:
            rows = block.rows_of(self._files.read(place, block.GROUP_BYTES), 1)
            if rows is not None:
                if len(self._rows) >= GROUPS_MAX:
                    del self._rows[next(iter(self._rows))]
                self._rows[place] = rows
        return rows


@final
class BlockFiles:
    """Appends blocks, reads their rows by groups, and notes damage of the index."""

    def __init__(self, disk: Disk, file_bytes: int, first: int, end: int) -> None:
        """Open the files and cut off what lies beyond `end`. The checkpoint needs the blocks from `first` to `end`.

        `file_bytes`: size above which a file gets no further block. Raises DerivedDamageError.
        """
        self._disk = disk
        self._file_bytes = file_bytes
        segments = self.segments = Segments(disk, FOLDER)
        segments.delete_left()
        if end and (segments.end < end or segments.first > first):
            segments.close()
            text = f"the index goes from {segments.first} to {segments.end}, and the checkpoint needs {first} to {end}"
            raise DerivedDamageError(text, FOLDER)
        segments.cut(min(end, segments.end))
        self.last_records = LastRecords(segments)
        self._groups = RowGroups(segments)

    def append(self, data: bytes, last: int) -> int:
        """Append a block whose last record is at `last` of the log; returns its place. Raises OSError."""
        segments = self.segments
        if segments.end - segments.active.base + len(data) > self._file_bytes:
            segments.roll()
        return self.append_here(data, last)

    def append_here(self, data: bytes, last: int) -> int:
        """As `append`, never in a new file."""
        place = self.segments.end
        self.segments.append(data)
        self.last_records.note(self.segments.active.base, last)
        return place

    def rows(self, queue: Queue, index: int, offset: int, count: int) -> bytes:
        """Encoded rows of one block, checked; b"" when its file is deleted. Raises StoreError and OSError."""
        blocks = queue.blocks
        assert blocks is not None
        within = offset - blocks[index]
        group = within // block.GROUP_ROWS
        groups = (within + count - 1) // block.GROUP_ROWS - group + 1
        place = blocks[len(blocks) // 2 + index]
        if place < self.segments.first:
            return b""  # its file is deleted, with all records that it refers to
        at = place + block.HEADER_BYTES + len(queue.name.encode()) + group * block.GROUP_BYTES
        data = self._groups.read(at, groups)
        if data is None:
            raise self._damaged(place)
        skipped = (within - group * block.GROUP_ROWS) * ROW_BYTES
        return data[skipped : skipped + count * ROW_BYTES]

    def _damaged(self, place: int) -> StoreError:
        """The error of a reader of the damaged block at `place`. The next start builds the index again."""
        segment = self.segments.at(place)
        name = FOLDER if segment is None else file_name(FOLDER, segment.base)
        text = f"the index block at {place} is damaged; the next start builds the index again from the log"
        derived_damage.note(self._disk, text)
        return StoreError(text, name)

    def headers(self, begin: int) -> Iterator[tuple[int, block.Block]]:
        """(place, header) of all blocks from place `begin` on. Raises DerivedDamageError and OSError."""
        segments = self.segments
        place = max(begin, segments.first)
        begin, data = 0, b""
        while place < segments.end:
            segment = segments.at(place)
            if segment is None:
                raise DerivedDamageError(f"the index has no file that holds {place}", FOLDER)
            found = block.header(data[place - begin : place - begin + _HEADER_BYTES_MAX]) if place >= begin else None
            if found is None:
                begin, data = place, segment.file.read(place - segment.base, _READ_BYTES)
                found = block.header(data[:_HEADER_BYTES_MAX])
            if found is None or place + found.size > segment.end:
                raise DerivedDamageError(f"the index has no valid block at {place}", file_name(FOLDER, segment.base))
            self.last_records.note(segment.base, found.last_physical)
            yield place, found
            place += found.size

    def all_rows(self, place: int, found: block.Block) -> bytes:
        """Encoded rows of the block at `place`, which has the header `found`. Raises DerivedDamageError and OSError."""
        groups = -(-found.count // block.GROUP_ROWS)
        rows = block.rows_of(self.segments.read(place + found.rows_at, found.size - found.rows_at), groups)
        if rows is None:
            raise DerivedDamageError(f"the index block at {place} is damaged", FOLDER)
        return rows

    def needed_from(self, log_start: int) -> int:
        """Base of the first file with a block of records from `log_start` on; of the last file when none has one."""
        for segment in self.segments.all:
            if self.last_records.of(segment.base) >= log_start:
                return segment.base
        return self.segments.active.base

    def drop_before(self, place: int) -> None:
        """Delete the files that end at `place` or before. Raises OSError."""
        while len(self.segments.all) > 1 and self.segments.all[1].base <= place:
            self.last_records.drop(self.segments.first)
            self.segments.drop_first()
