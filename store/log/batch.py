"""The batch: the unit of a write of group commit, with one CRC.

    0 header size 4 (72) | 4 magic 4 | 8 CRC-32 4 | 12 bytes that follow 4 | 16 position in the log 8 | 24 written ms 8
    32 place of the state record, from the start of the batch, 0 when there is none 4 | 36 records 4
    40 format version 2 (2) | 42 kind 2 | 44 epoch 8 | 52 incarnation 8 | 60 flushed 8 | 68 CRC-32 of the header 4

The header's CRC covers its bytes 12 to 68, the other CRC the same bytes and all bytes behind the header. A header of version 1
ends at 40; it is read, but no longer written. The header size distinguishes the versions. Header and filler begin like a record
(size, magic): the whole log is a sequence of records.

Later versions keep the fields by which they are recognized: magic, position and version at their places, and the CRC of the
header at its end.

A gap stands for lost records: a header alone, whose following bytes are in no file. The next segment begins behind them.
"""

from __future__ import annotations

import struct
from typing import Final, final

from domain.message.crc32 import crc32
from domain.message.record import MAGIC_BLANK
from domain.octets import uint16, uint32, uint64

HEADER_BYTES: Final = 72
HEADER_BYTES_V1: Final = 40
FILLER_BYTES: Final = 8
MAGIC_BATCH: Final = 0xDAA32BA7
MAGIC_BYTES: Final = b"\xda\xa3\x2b\xa7"
FILLER: Final = struct.pack(">II", FILLER_BYTES, MAGIC_BLANK)
VERSION: Final = 2
RECORDS: Final = 0
GAP: Final = 1
RECORD_BYTES_MIN: Final = 91
LATER_HEADER_BYTES_MAX: Final = 1_024
"""Bytes of a header of a later version, at most."""
_SIZE_MAX: Final = 1 << 40
_FEW: Final = 64
_LARGE_BYTES: Final = 256 * 1024
"""Bytes of at most _FEW records from which on a batch is large."""

_FRONT = struct.Struct(">III")
_FACTS_V1 = struct.Struct(">IqqII")
_FACTS = struct.Struct(">IqqIIHHqqq")
_CRC = struct.Struct(">I")
_POSITION = struct.Struct(">q")
_VERSION = struct.Struct(">H")


@final
class Writer:
    """Writer of a batch, as named in the header.

    epoch         epoch of the leader that accepted it; 0 on a node without replicas
    incarnation   identity of the log, 1 to 2^63 - 1
    """

    __slots__ = ("epoch", "incarnation")

    def __init__(self, epoch: int = 0, incarnation: int = 0) -> None:
        self.epoch = epoch
        self.incarnation = incarnation


@final
class Header:
    """A decoded batch header.

    version       1 or 2
    size          bytes of the whole batch, header included; of a gap, the bytes up to the next segment
    head          bytes of the header, where the first record begins
    state_at      offset of the state record in the batch, 0 without one
    count         number of records; of a gap, an upper bound of the lost ones
    epoch         epoch of its writer; 0 in version 1
    incarnation   identity of the log that wrote it; 0 in version 1
    flushed       position below which the log was flushed at the write of the batch; 0 in version 1
    """

    __slots__ = (
        "count", "crc", "epoch", "flushed", "head", "incarnation", "is_gap", "position", "size", "state_at", "version",
        "written_ms",
    )  # fmt: skip

    def __init__(self, version: int, crc: int, head: int, size: int, position: int, written_ms: int) -> None:
        self.version = version
        self.crc = crc
        self.head = head
        self.size = size
        self.position = position
        self.written_ms = written_ms
        self.state_at = 0
        self.count = 0
        self.epoch = 0
        self.incarnation = 0
        self.flushed = 0
        self.is_gap = False


def encode(parts: list[bytes], position: int, written_ms: int, state_at: int, writer: Writer, flushed: int) -> bytes:
    """Encode records, in order, as the batch at `position` of the log. `flushed`: position below which the log is durable."""
    if len(parts) <= _FEW:
        size = sum([len(part) for part in parts])
        if size >= _LARGE_BYTES:
            return _encode_large(parts, size, position, written_ms, state_at, writer, flushed)
    body = b"".join(parts)
    facts = _FACTS.pack(
        len(body), position, written_ms, state_at, len(parts), VERSION, RECORDS, writer.epoch, writer.incarnation, flushed
    )
    own = crc32(facts)
    return b"".join((_FRONT.pack(HEADER_BYTES, MAGIC_BATCH, crc32(body, own)), facts, _CRC.pack(own), body))


def _encode_large(
    parts: list[bytes], size: int, position: int, written_ms: int, state_at: int, writer: Writer, flushed: int
) -> bytes:
    """As `encode`, for few large records, which are copied once: a copy of megabytes costs more than a CRC for each record."""
    facts = _FACTS.pack(
        size, position, written_ms, state_at, len(parts), VERSION, RECORDS, writer.epoch, writer.incarnation, flushed
    )
    own = crc32(facts)
    crc = own
    for part in parts:
        crc = crc32(part, crc)
    return b"".join([_FRONT.pack(HEADER_BYTES, MAGIC_BATCH, crc), facts, _CRC.pack(own), *parts])


def gap(size: int, position: int, written_ms: int, count: int, writer: Writer) -> bytes:
    """Header of a gap of `size` bytes, at least HEADER_BYTES, in which at most `count` records were lost."""
    facts = _FACTS.pack(
        0, position, written_ms, 0, min(count, 0xFFFFFFFF), VERSION, GAP, writer.epoch, writer.incarnation, position + size
    )
    own = crc32(facts)
    return b"".join((_FRONT.pack(HEADER_BYTES, MAGIC_BATCH, own), facts, _CRC.pack(own)))


def header(data: bytes, position: int) -> Header | None:
    """Batch header at the start of `data`, read from `position` of the log; None without a valid one.

    A header of version 1 has no separate CRC: only `holds` proves it.
    """
    if len(data) < HEADER_BYTES_V1:
        return None
    size, magic, crc = _FRONT.unpack_from(data)
    if magic != MAGIC_BATCH:
        return None
    if size == HEADER_BYTES:
        return _version2(data, position, crc)
    following, place, written_ms, state_at, count = _FACTS_V1.unpack_from(data, 12)
    if size != HEADER_BYTES_V1 or place != position or state_at > following + HEADER_BYTES_V1:
        return None
    found = Header(1, crc, HEADER_BYTES_V1, HEADER_BYTES_V1 + following, place, written_ms)
    found.state_at = state_at
    found.count = count
    return found


def _version2(data: bytes, position: int, crc: int) -> Header | None:
    if len(data) < HEADER_BYTES:
        return None
    (own,) = _CRC.unpack_from(data, HEADER_BYTES - 4)
    if crc32(data[12 : HEADER_BYTES - 4]) != own:
        return None
    following, place, written_ms, state_at, count, version, kind, epoch, incarnation, flushed = _FACTS.unpack_from(data, 12)
    if version != VERSION or place != position or state_at > following + HEADER_BYTES:
        return None
    found = Header(2, crc, HEADER_BYTES, HEADER_BYTES + following, place, written_ms)
    found.state_at = state_at
    found.count = count
    found.epoch = epoch
    found.incarnation = incarnation
    if kind == GAP:
        if not HEADER_BYTES <= flushed - place < _SIZE_MAX:
            return None
        found.is_gap = True
        found.size = flushed - place
    else:
        found.flushed = flushed
    return found


def later_version(data: bytes, position: int) -> int:
    """Format version of a batch of a later program that begins with `data` at `position` of the log; else 0.

    `data`: LATER_HEADER_BYTES_MAX bytes, or all up to the end.
    """
    if len(data) < HEADER_BYTES:
        return 0
    size, magic, _ = _FRONT.unpack_from(data)
    if magic != MAGIC_BATCH or not HEADER_BYTES <= size <= min(len(data), LATER_HEADER_BYTES_MAX):
        return 0
    (place,), (version,) = _POSITION.unpack_from(data, 16), _VERSION.unpack_from(data, 40)
    (own,) = _CRC.unpack_from(data, size - 4)
    return version if version > VERSION and place == position and crc32(data[12 : size - 4]) == own else 0


def holds(data: bytes, found: Header) -> bool:
    """True when `data` is the whole batch of the header `found`, with the correct CRC. Always True for a gap."""
    if found.is_gap:
        return True
    if len(data) != found.size:
        return False
    if found.version == 1:
        return crc32(memoryview(data)[12:]) == found.crc
    own = crc32(memoryview(data)[12 : HEADER_BYTES - 4])
    return crc32(memoryview(data)[HEADER_BYTES:], own) == found.crc


def whole_bytes(data: bytes, position: int) -> int:
    """Number of bytes at the begin of `data`, read from `position` of the log, that are whole batches of version 2 and the
    filler behind them. 0: none, or another sequence.

    CRCs are not computed: a wrong size ends the chain, since no batch with the right position begins there.
    """
    at = 0
    last = len(data) - HEADER_BYTES
    while at <= last:
        front = uint32(data, at) == HEADER_BYTES and uint32(data, at + 4) == MAGIC_BATCH
        if not front or uint64(data, at + 16) != position + at or uint16(data, at + 42) != RECORDS:
            break
        end = at + HEADER_BYTES + uint32(data, at + 12)
        if end > len(data):
            return at
        at = end
    return at + FILLER_BYTES if data[at : at + FILLER_BYTES] == FILLER else at


def blank(data: bytes) -> int:
    """Size of the blank at the start of `data`: a filler, or a part too short for a gap. 0 without one."""
    if len(data) < FILLER_BYTES or data[4:8] != FILLER[4:]:
        return 0
    size = int.from_bytes(data[:4], "big")
    return size if FILLER_BYTES <= size < HEADER_BYTES else 0


def is_filler(data: bytes) -> bool:
    """True when `data` begins with the filler that ends a segment."""
    return data[:FILLER_BYTES] == FILLER
