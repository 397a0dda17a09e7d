"""Reading of segments that were set aside: their messages, past whatever is damaged in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from domain.message import record
from domain.message.record import Record
from domain.octets import uint32
from store.log import batch
from store.log.batch import Header

ReadBytes = Callable[[int, int], bytes]
"""(offset in the file, size) -> bytes, fewer at the end. Raises OSError."""
_WINDOW_BYTES: Final = 1024 * 1024


class UnreadableBytes(NamedTuple):
    """Bytes of a segment in which no batch can be read; `begin` and `end` are positions of the log."""

    begin: int
    end: int


def messages(read: ReadBytes, base: int, size: int) -> Iterator[Record | UnreadableBytes]:
    """The messages of the segment that begins at position `base`, in the order of the log, one batch in memory.

    Records of state are left out. Raises OSError.
    """
    at = 0
    while at < size:
        front = read(at, batch.HEADER_BYTES)
        found = batch.header(front, base + at)
        if found is None and batch.is_filler(front[: batch.FILLER_BYTES]):
            at += batch.FILLER_BYTES
            continue
        data = b"" if found is None or found.is_gap else read(at, found.size)
        if found is None or not batch.holds(data, found):
            following = _next_batch(read, base, at + 1, size)
            yield UnreadableBytes(base + at, base + following)
            at = following
            continue
        yield from _records(data, found)
        at += len(data) or batch.HEADER_BYTES  # of a gap there is the header alone


def _records(data: bytes, found: Header) -> Iterator[Record]:
    """The messages of a whole batch."""
    at = found.head
    while at + record.RECORD_BYTES_MIN <= len(data):
        size = uint32(data, at)
        if size < record.RECORD_BYTES_MIN or at + size > len(data):
            return
        if at != found.state_at:
            each = data[at : at + size]
            if record.check(each):
                yield Record(each)
        at += size


def _next_batch(read: ReadBytes, base: int, at: int, size: int) -> int:
    """Offset of the next batch header from `at` on; `size`: there is none."""
    while at < size:
        data = read(at, _WINDOW_BYTES)
        magic = data.find(batch.MAGIC_BYTES, 4)
        while magic >= 0:
            place = at + magic - 4
            if batch.header(read(place, batch.HEADER_BYTES), base + place) is not None:
                return place
            magic = data.find(batch.MAGIC_BYTES, magic + 1)
        at += max(len(data) - 2 * len(batch.MAGIC_BYTES), 1)
    return size
