"""Reads of records by row: from the tail cache, else from the disk, with one read for neighbouring records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.octets import uint32
from store.log.checked import CheckedRanges
from store.log.damage import LogDamageError, SuspectedSegments
from store.log.gap import is_lost
from store.log.recent import TailCache
from store.queue.row import Row

GAP_BYTES: Final = 8_192
"""Largest distance of records that are read together."""
RUN_BYTES: Final = 512 * 1024
"""Limit on the bytes of one read, unless one record is longer: twice as many take more than a millisecond from the disk."""

RECORD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Limit on the size of a record, for reads at positions that clients give."""


@final
class RecordReader:
    """Reads records; bytes from the disk are checked at their first read.

    Raises LogDamageError when the log disagrees with the index, or is damaged there, LogReadError when the disk fails.
    """

    def __init__(self, suspects: SuspectedSegments, cache: TailCache) -> None:
        self._segments = suspects.segments
        self._cache = cache
        self._cached = cache.records
        self.checked = CheckedRanges(suspects)
        self.disk_reads = 0

    def is_lost(self, row: Row) -> bool:
        """True when the record of `row` was lost: it is in a gap of the log."""
        return bool(self._segments.gaps) and is_lost(self._segments.gaps, row[0])

    def fetch(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of `rows`, in order; b"" for a lost one."""
        return self.fetch_at([row[0] for row in rows], [row[1] for row in rows])

    def fetch_at(self, places: list[int], sizes: list[int]) -> list[bytes]:
        """The records of `sizes` bytes at `places`, as `fetch`."""
        gaps = self._segments.gaps
        if not gaps:
            return self._fetch(places, sizes)
        here = [at for at, place in enumerate(places) if not is_lost(gaps, place)]
        out = [b""] * len(places)
        for at, record in zip(here, self._fetch([places[at] for at in here], [sizes[at] for at in here]), strict=True):
            out[at] = record
        return out

    def _fetch(self, places: list[int], sizes: list[int]) -> list[bytes]:
        cached = self._cached
        first_cached = self._cache.first
        out: list[bytes] = []
        at = 0
        count = len(places)
        while at < count:
            begin = places[at]
            if begin >= first_cached:
                data = cached.get(begin)
                if data is not None:
                    out.append(data)
                    at += 1
                    continue
            end = begin + sizes[at]
            run = at + 1
            while run < count:
                place = places[run]
                follow = place + sizes[run]
                if place < end or place > end + GAP_BYTES or follow > begin + RUN_BYTES:
                    break
                if place >= first_cached and place in cached:
                    break
                end = follow
                run += 1
            self._run(places[at:run], sizes[at:run], end, out)
            at = run
        return out

    def _run(self, places: list[int], sizes: list[int], end: int, out: list[bytes]) -> None:
        """Read neighbouring records, from the first place to `end`, at once."""
        begin = places[0]
        segment = self._segments.at(begin)
        data = b""
        if segment is not None:
            self.checked.require(begin, min(end, segment.end))
            try:
                data = segment.file.read(begin - segment.base, min(end, segment.end) - begin)
            except OSError as error:
                raise self.checked.unread(begin, error) from error
            self.disk_reads += 1
        for number, place in enumerate(places):
            at = place - begin
            size = sizes[number]
            record = data[at : at + size]
            if len(record) != size:
                if place == begin:
                    raise self._missing(place, size)
                self._run([place], [size], place + size, out)
                continue
            if _size_of(record) != size:
                raise self._missing(place, size)
            out.append(record)

    def _missing(self, place: int, size: int) -> LogDamageError:
        self.checked.suspects.add(place)
        return LogDamageError(f"the log holds no record of {size} bytes at {place}, where the index says one is")

    def at(self, position: int, end: int) -> bytes | None:
        """Record that begins at `position` and ends at `end` of the log or before; None without one."""
        data = self._cached.get(position)
        if data is not None:
            return data
        if position < 0 or position + 91 > end or (self._segments.gaps and is_lost(self._segments.gaps, position)):
            return None
        front = self._segments.read(position, 8)
        if len(front) < 8 or front[4:] not in (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab"):
            return None
        size = int.from_bytes(front[:4], "big")
        if size > RECORD_BYTES_MAX or position + size > end:
            return None
        data = self._segments.read(position, size)
        if len(data) != size:
            return None
        self.checked.require(position, position + size)
        return data

    def value(self, position: int, size: int) -> bytes:
        """`size` bytes of the log from `position` on, checked; fewer where the log does not hold them."""
        data = self._segments.read(position, size)
        if data:
            self.checked.require(position, position + len(data))
        return data


def _size_of(record: bytes) -> int:
    return uint32(record, 0) if len(record) >= 4 else 0
