"""Checks of batches at the first read of their bytes from the disk."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, final

from domain.errors import lacks_descriptor
from store.log import batch
from store.log.damage import LogDamageError, LogReadError, SuspectedSegments
from store.log.segment import FOLDER, Segment, file_name

RANGES_MAX: Final = 4_096
"""Limit on remembered checked parts; beyond it all are forgotten, and checked again."""
_BACK_BYTES: Final = 65_536


@final
class CheckedRanges:
    """The parts of the log whose batches have been checked by this process.

    suspects   gets the position of a failed check, or one near it
    _begins    positions at which checked parts begin, ascending; they begin and end at batches
    """

    def __init__(self, suspects: SuspectedSegments) -> None:
        self._segments = suspects.segments
        self.suspects = suspects
        self._begins: list[int] = []
        self._ends: list[int] = []
        self.failed = 0

    def require(self, begin: int, end: int) -> None:
        """Check the batches that hold the bytes from `begin` to `end`, of one segment, unless they have been checked.

        Raises LogDamageError when one of them is damaged, LogReadError when the disk cannot read them.
        """
        at = bisect_right(self._begins, begin) - 1
        if at >= 0 and end <= self._ends[at]:
            return
        segment = self._segments.at(begin)
        if segment is None:
            return
        start = position = self._ends[at] if at >= 0 and begin <= self._ends[at] else -1
        try:
            if position < 0:
                start = position = self._batch_at(segment, begin)
            while position < min(end, segment.end):
                position = self._check(segment, position)
        except OSError as error:
            raise self.unread(max(position, begin), error) from error
        finally:
            if position > start:
                self._add(start, position)

    def _check(self, segment: Segment, position: int) -> int:
        at = position - segment.base
        front = segment.file.read(at, batch.HEADER_BYTES)
        if position + batch.FILLER_BYTES == segment.end and batch.is_filler(front):
            return segment.end  # a read may continue in the next segment
        found = batch.header(front, position)
        if found is None or found.is_gap:
            raise self._damaged(segment, position)
        if not batch.holds(segment.file.read(at, found.size), found):
            raise self._damaged(segment, position)
        return position + found.size

    def _batch_at(self, segment: Segment, position: int) -> int:
        """Position of the batch that holds `position`: the nearest header before it, of the segment's incarnation."""
        front = batch.header(segment.file.read(0, batch.HEADER_BYTES), segment.base)
        high = position
        while high > segment.base:
            low = max(high - _BACK_BYTES, segment.base)
            data = segment.file.read(low - segment.base, high - low + batch.HEADER_BYTES)
            at = data.rfind(batch.MAGIC_BYTES, 4, high - low + 4)
            while at >= 0:
                found = batch.header(data[at - 4 : at - 4 + batch.HEADER_BYTES], low + at - 4)
                if found is not None and found.position + found.size > position and self._is_one(segment, front, found):
                    return found.position
                at = data.rfind(batch.MAGIC_BYTES, 4, at)
            high = low
        raise self._damaged(segment, position)

    def _is_one(self, segment: Segment, front: batch.Header | None, found: batch.Header) -> bool:
        """True when `found` is a batch of the segment that begins with `front`; bytes of a message never are."""
        if found.is_gap or (front is not None and not front.is_gap and front.incarnation != found.incarnation):
            return False
        return found.version == 2 or batch.holds(segment.file.read(found.position - segment.base, found.size), found)

    def unread(self, position: int, error: OSError) -> LogReadError:
        """Error for a reader, after the disk has failed to read the log at `position`, or near it."""
        if not lacks_descriptor(error):
            self.suspects.add(position)
        return LogReadError(error.errno, error.strerror, error.filename)

    def _damaged(self, segment: Segment, position: int) -> LogDamageError:
        self.failed += 1
        self.suspects.add(position)
        name = file_name(FOLDER, segment.base)
        return LogDamageError(f"{name} is damaged at byte {position - segment.base:,}: a checksum is wrong", name)

    def _add(self, begin: int, end: int) -> None:
        """Remember a checked part, merged with the parts that it touches."""
        if len(self._begins) >= RANGES_MAX:
            self._begins.clear()
            self._ends.clear()
        at = bisect_right(self._begins, begin)
        if at > 0 and self._ends[at - 1] >= begin:
            at -= 1
            begin = self._begins[at]
            end = max(end, self._ends[at])
            del self._begins[at]
            del self._ends[at]
        while at < len(self._begins) and self._begins[at] <= end:
            end = max(end, self._ends[at])
            del self._begins[at]
            del self._ends[at]
        self._begins.insert(at, begin)
        self._ends.insert(at, end)
