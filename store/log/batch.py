"""The batch: the unit that one write of group commit adds to the log, with one CRC.

    0 header size 4 (40) | 4 magic 4 | 8 CRC-32 4 | 12 bytes that follow 4 | 16 position in the log 8 | 24 written ms 8
    32 place of the state record, from the start of the batch, 0 when there is none 4 | 36 records 4

The CRC covers the header from its bytes field (12) on, and all that follows. Recovery ignores a batch with an invalid header or
CRC: its records and its state changes. Header and filler begin like a record (size, magic), so the whole log is a sequence of
records.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, final

from domain.record import MAGIC_BLANK

HEADER_BYTES: Final = 40
FILLER_BYTES: Final = 8
MAGIC_BATCH: Final = 0xDAA32BA7
FILLER: Final = struct.pack(">II", FILLER_BYTES, MAGIC_BLANK)

_FRONT = struct.Struct(">III")
_FACTS = struct.Struct(">IqqII")


@final
class Header:
    """A decoded batch header.

    crc          CRC-32 of the batch
    size         bytes of the whole batch, header included
    position     position of the batch in the log
    written_ms   when it was written, in epoch ms
    state_at     where in the batch the state record begins, 0 when there is none
    count        number of records
    """

    __slots__ = ("count", "crc", "position", "size", "state_at", "written_ms")

    def __init__(self, crc: int, size: int, position: int, written_ms: int, state_at: int, count: int) -> None:
        self.crc = crc
        self.size = size
        self.position = position
        self.written_ms = written_ms
        self.state_at = state_at
        self.count = count


def encode(parts: list[bytes], position: int, written_ms: int, state_at: int) -> bytes:
    """Records in order -> bytes of their batch at `position` of the log."""
    body = b"".join(parts)
    facts = _FACTS.pack(len(body), position, written_ms, state_at, len(parts))
    crc = zlib.crc32(body, zlib.crc32(facts))
    return b"".join((_FRONT.pack(HEADER_BYTES, MAGIC_BATCH, crc), facts, body))


def header(data: bytes, position: int) -> Header | None:
    """The batch header at the start of `data`, read from `position` of the log; None when there is no valid one."""
    if len(data) < HEADER_BYTES:
        return None
    size, magic, crc = _FRONT.unpack_from(data)
    following, place, written_ms, state_at, count = _FACTS.unpack_from(data, 12)
    if size != HEADER_BYTES or magic != MAGIC_BATCH or place != position or state_at > following + HEADER_BYTES:
        return None
    return Header(crc, HEADER_BYTES + following, place, written_ms, state_at, count)


def holds(data: bytes, found: Header) -> bool:
    """True when `data` is the whole batch of the header `found`, and its CRC is right."""
    return len(data) == found.size and zlib.crc32(memoryview(data)[12:]) == found.crc


def is_filler(data: bytes) -> bool:
    """True when `data` begins with the filler that ends a segment."""
    return data[:FILLER_BYTES] == FILLER
