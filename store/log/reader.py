"""Reads records by row: from the tail cache, else from the disk, with one read for records that lie close together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.errors import StoreError
from store.log.cache import TailCache
from store.log.segment import Segments
from store.queue.row import Row

GAP_BYTES: Final = 8_192
"""Records with at most this many bytes between them are read together."""
RUN_BYTES: Final = 1024 * 1024
"""Bytes of one read, at most, unless one record is longer."""


@final
class RecordReader:
    """Reads records. Raises StoreError when the log does not hold what the index says, OSError when the disk fails.

    disk_reads   reads of the disk since the start
    """

    def __init__(self, segments: Segments, cache: TailCache) -> None:
        self._segments = segments
        self._cached = cache.records
        self.disk_reads = 0

    def fetch(self, rows: Sequence[Row]) -> list[bytes]:
        """The records of `rows`, in order."""
        cached = self._cached
        out: list[bytes] = []
        at = 0
        count = len(rows)
        while at < count:
            row = rows[at]
            data = cached.get(row[0])
            if data is not None:
                out.append(data)
                at += 1
                continue
            begin = row[0]
            end = begin + row[1]
            run = at + 1
            while run < count:
                follow = rows[run]
                place = follow[0]
                if place < end or place > end + GAP_BYTES or place + follow[1] > begin + RUN_BYTES or place in cached:
                    break
                end = place + follow[1]
                run += 1
            self._run(rows[at:run], begin, end, out)
            at = run
        return out

    def _run(self, rows: Sequence[Row], begin: int, end: int, out: list[bytes]) -> None:
        segment = self._segments.at(begin)
        data = b""
        if segment is not None:
            data = segment.file.read(begin - segment.base, min(end, segment.end) - begin)
            self.disk_reads += 1
        for row in rows:
            at = row[0] - begin
            record = data[at : at + row[1]]
            if len(record) != row[1]:
                if row is rows[0]:
                    raise StoreError(f"the log holds no record of {row[1]} bytes at {row[0]}, where the index says one is")
                self._run([row], row[0], row[0] + row[1], out)
                continue
            if int.from_bytes(record[:4], "big") != row[1]:
                raise StoreError(f"the log holds no record of {row[1]} bytes at {row[0]}, where the index says one is")
            out.append(record)

    def at(self, position: int, end: int) -> bytes | None:
        """The record that begins at `position` and ends at `end` of the log or before; None when there is none."""
        data = self._cached.get(position)
        if data is not None:
            return data
        if position < 0 or position + 91 > end:
            return None
        front = self._segments.read(position, 8)
        if len(front) < 8 or front[4:] not in (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab"):
            return None
        size = int.from_bytes(front[:4], "big")
        data = self._segments.read(position, size)
        return data if position + size <= end and len(data) == size else None
