"""The batch of a log that is nearest before a position, found by its header. A batch does not name the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from domain.replication.ports import BatchMark
from store.log import batch
from store.log.segment import Segments

WINDOWS: Final = (64 * 1024, 1024 * 1024, 32 * 1024 * 1024)
"""Bytes before the position that are read, one window after the other until a header is found: batches are rarely longer."""


def batch_before(segments: Segments, position: int) -> BatchMark | None:
    """The last batch that begins before `position`, in the segment of the byte before it.

    The body of a message may look like a header, of the right position and CRC too: ids of messages have positions. So a header
    counts whose batch ends at `position`, or at the filler before it. Where none does, no batch ends there, and the last header
    counts.

    None: there is none, its header is damaged, it is longer than the largest window, or the disk does not give it.
    """
    segment = segments.around(position - 1)
    if segment is None:
        return None
    stop = min(position - 1 + batch.HEADER_BYTES, segment.end)
    last: BatchMark | None = None
    for window in WINDOWS:
        begin = max(segment.base, position - window)
        try:
            data = segment.file.read(begin - segment.base, stop - begin)
        except OSError:
            return None
        filler = position - batch.FILLER_BYTES
        ends = (position, filler) if batch.is_filler(data[max(filler - begin, 0) :]) else (position,)
        for found in _headers(data, begin, position):
            last = last or found
            if found.begin == position - 1 or found.end in ends:
                return found
        if begin == segment.base:
            return last
    return last


def _headers(data: bytes, begin: int, position: int) -> Iterator[BatchMark]:
    """The headers in `data`, read from `begin` of the log, that begin before `position`, the last one first."""
    at = position - 1 - begin + 4 + len(batch.MAGIC_BYTES)
    while (magic := data.rfind(batch.MAGIC_BYTES, 4, at)) >= 0:
        front = magic - 4
        found = batch.header(data[front : front + batch.HEADER_BYTES], begin + front)
        if found is not None:
            yield BatchMark(found.position, found.position + found.size, found.crc)
        at = magic + len(batch.MAGIC_BYTES) - 1
