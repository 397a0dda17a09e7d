"""Reads groups of index rows, each of them checked. Those that were read last stay in memory.

A consumer that asks for few rows at a time needs the rows of a group several times: it is read and checked once.
"""

from __future__ import annotations

from typing import Final, final

from store.log.segment import Segments
from store.queue import block

GROUPS_MAX: Final = 128
"""Groups in memory, 1.5 KB each."""
_KEPT_MAX: Final = 2
"""Limit on cached groups per call: a reader of more groups does not return for the same ones."""


@final
class RowGroups:
    """The groups of all blocks. A place of the index files is never written twice, so a group never changes.

    _rows   place of a group -> its encoded rows, the group that was read first in front
    """

    __slots__ = ("_files", "_rows")

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
