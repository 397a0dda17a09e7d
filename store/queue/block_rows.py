"""Rows of the blocks of the queue index, read from its files."""

from __future__ import annotations

from typing import Final, final

from domain.errors import StoreError
from domain.ports import Disk
from store.checkpoint import derived_damage
from store.log.segment import Segments, file_name
from store.queue import block
from store.queue.groups import RowGroups
from store.queue.queue import Queue
from store.queue.row import ROW_BYTES

FOLDER: Final = "index"


@final
class BlockRows:
    """Reads rows of blocks by groups, and notes damage of the index."""

    def __init__(self, disk: Disk, files: Segments) -> None:
        self._disk = disk
        self._files = files
        self._groups = RowGroups(files)

    def read(self, queue: Queue, index: int, offset: int, count: int) -> bytes:
        """Encoded rows of one block, checked. Raises StoreError and OSError."""
        blocks = queue.blocks
        assert blocks is not None
        within = offset - blocks[index]
        group = within // block.GROUP_ROWS
        groups = (within + count - 1) // block.GROUP_ROWS - group + 1
        place = blocks[len(blocks) // 2 + index]
        if place < self._files.first:
            return b""  # its file is deleted, with all records that it refers to
        at = place + block.HEADER_BYTES + len(queue.name.encode()) + group * block.GROUP_BYTES
        data = self._groups.read(at, groups)
        if data is None:
            raise self._damaged(place)
        skipped = (within - group * block.GROUP_ROWS) * ROW_BYTES
        return data[skipped : skipped + count * ROW_BYTES]

    def _damaged(self, place: int) -> StoreError:
        """The error of a reader of the damaged block at `place`. The next start builds the index again."""
        segment = self._files.at(place)
        name = FOLDER if segment is None else file_name(FOLDER, segment.base)
        text = f"the index block at {place} is damaged; the next start builds the index again from the log"
        derived_damage.note(self._disk, text)
        return StoreError(text, name)
