"""Ends of segments: the batch that begins one, the gap at its end, and the filler of the last one; parts of whole batches."""

from __future__ import annotations

from store.log import batch
from store.log.gap import Gap
from store.log.segment import Segment, Segments


def version_of(segment: Segment) -> int:
    """The format version of the batch or gap that begins a segment; 0 when none does, 1 for a lone filler."""
    front = segment.file.read(0, batch.HEADER_BYTES)
    found = batch.header(front, segment.base)
    if found is not None:
        return found.version
    return 1 if batch.blank(front) else 0


def writer_of(segment: Segment) -> int:
    """The incarnation that wrote a segment, by the batch that begins it; -1 for version 1, 0 when none begins it."""
    found = batch.header(segment.file.read(0, batch.HEADER_BYTES), segment.base)
    return 0 if found is None else found.incarnation if found.version == 2 else -1


def date_segments(segments: Segments, now_ms: int) -> None:
    """Set `newest_ms` of segments that were not walked to the time of the first batch after them; of all at most `now_ms`.

    A clock that was ahead has dated them later: they would not be deleted until then.
    """
    following_ms = now_ms
    for segment in reversed(segments.all):
        segment.newest_ms = min(segment.newest_ms or following_ms, now_ms)
        first = batch.header(segment.file.read(0, batch.HEADER_BYTES), segment.base)
        if first is not None:
            following_ms = first.written_ms


def oldest_ms(segments: Segments) -> int:
    """When the oldest batch of the log was written, in epoch ms; 0 when there is none."""
    first = batch.header(segments.all[0].file.read(0, batch.HEADER_BYTES), segments.first)
    return 0 if first is None else first.written_ms


def ends_with_filler(segments: Segments) -> bool:
    """True when the last segment ends with the filler: the next batch needs a new segment."""
    last = segments.all[-1]
    return last.file.size() >= batch.FILLER_BYTES and batch.is_filler(
        last.file.read(last.file.size() - batch.FILLER_BYTES, batch.FILLER_BYTES)
    )


def reach(segments: Segments, segment: Segment) -> int:
    """End of a segment with the gap at its end."""
    for found in segments.gaps:
        if segment.base <= found.begin < segment.end:
            return found.end
    return segment.end


def find_gaps(segments: Segments) -> None:
    """Find the gaps: they are at the end of segments whose files are shorter than their part of the log. Raises OSError."""
    segments.gaps.clear()
    for segment in segments.all[:-1]:
        follows = segments.follows(segment)
        found = _gap_of(segments, segment, follows) if segment.end < follows else None
        if found is not None:
            segments.gaps.append(found)


def _gap_of(segments: Segments, segment: Segment, follows: int) -> Gap | None:
    for size in (batch.HEADER_BYTES, batch.FILLER_BYTES):
        begin = segment.end - size
        if begin >= segment.base and segments.after(begin) >= follows:
            found = batch.header(segment.file.read(begin - segment.base, size), begin)
            return Gap(begin, follows, 0, 0) if found is None else Gap(begin, follows, found.count, found.written_ms)
    return None


def whole_batches(segment: Segment, position: int, end: int, size: int, checked: bool = True) -> bytes:
    """Whole batches of a segment from `position` on, and the filler behind them: `size` bytes at most, or one batch.

    b"" when the first one is damaged, is a gap, or does not end at `end`. `checked` False: only their headers are read, and a
    wrong size ends the bytes. Raises OSError.
    """
    data = segment.file.read(position - segment.base, min(size, end - position))
    whole = _whole(data, position) if checked else batch.whole_bytes(data, position)
    if not whole:
        found = batch.header(data, position)
        if found is None or found.is_gap or position + found.size > end:
            return b""
        data = segment.file.read(position - segment.base, found.size)
        whole = _whole(data, position) if checked else len(data)
    return data if whole == len(data) else data[:whole]


def _whole(data: bytes, position: int) -> int:
    """Number of bytes at the begin of `data`, the log from `position` on, that are whole batches, with a filler behind them."""
    at = 0
    while at < len(data):
        front = data[at : at + batch.HEADER_BYTES]
        if batch.is_filler(front):
            return at + batch.FILLER_BYTES
        found = batch.header(front, position + at)
        if found is None or found.is_gap or not batch.holds(data[at : at + found.size], found):
            return at
        at += found.size
    return at
