"""Decompression: of bodies that a remoting producer compressed, for protocols without RocketMQ's flag (MessageSysFlag), and of
structures that are read while they are inflated.

Bits 8 to 10 of the sys flag are the compression type: 1 LZ4 frame, 2 Zstandard, 3 zlib, and 0 zlib as older clients write it.
Decompression is bounded: it stops when the body exceeds the limit, and the body counts as unreadable.
"""

from __future__ import annotations

import zlib
from typing import Final, final

import lz4.frame
import zstandard

from domain.message.message import SYS_COMPRESSED, SYS_COMPRESSION_MASK
from domain.message.record import Record

TYPE_LZ4: Final = 0x100
TYPE_ZSTD: Final = 0x200
GZIP_MAGIC: Final = b"\x1f\x8b"
DEFLATE_RATIO_MAX: Final = 1032
"""Bytes that one byte of a deflate stream (RFC 1951) can become: 258 for a length and a distance of one bit each."""
LZ4_RATIO_MAX: Final = 255
"""Bytes that one byte of an LZ4 block can become: a byte of a match length adds at most 255."""
ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
ZSTD_AT_ONCE_BYTES: Final = 128
"""Bytes that are decompressed between checks of the size. They become at most 4 MiB: 128 KiB for an RLE block of 4 bytes."""
INFLATED_AT_ONCE_BYTES: Final = 64 * 1024
PACKED_AT_ONCE_BYTES: Final = 16 * 1024

_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS
_ZSTD: Final = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
"""Creating one costs ten times a small body. For one thread of a process; it keeps the memory of its last window."""


def plain(record: Record, limit: int) -> bytes | None:
    """The body of a record, decompressed; None when it is corrupt or larger than `limit` bytes."""
    return expanded(record.body, record.sys_flag, limit)


def expanded(body: bytes, sys_flag: int, limit: int) -> bytes | None:
    """A body with the sys flag of its record, decompressed; None when it is corrupt or larger than `limit` bytes."""
    if not sys_flag & SYS_COMPRESSED:
        return body if len(body) <= limit else None
    kind = sys_flag & SYS_COMPRESSION_MASK
    if kind == TYPE_LZ4:
        return unframe_lz4(body, limit)
    if kind == TYPE_ZSTD:
        return unframe_zstd(body, limit)
    return inflate(body, limit)


def inflate(data: bytes, limit: int) -> bytes | None:
    """One zlib or gzip stream (RFC 1950, RFC 1952) -> at most `limit` bytes; None when corrupt, cut short or larger."""
    try:
        if len(data) * DEFLATE_RATIO_MAX <= limit:
            return zlib.decompress(data, _ZLIB_OR_GZIP, 8 * len(data) + 64)
        stream = zlib.decompressobj(_ZLIB_OR_GZIP)
        out = stream.decompress(data, limit + 1)
    except zlib.error:
        return None
    return out if stream.eof and len(out) <= limit else None


def unframe_lz4(data: bytes, limit: int) -> bytes | None:
    """One LZ4 frame -> at most `limit` bytes; None when corrupt, cut short or larger."""
    most = min(limit + 1, LZ4_RATIO_MAX * len(data))
    try:
        out, _, whole = lz4.frame.decompress_chunk(lz4.frame.create_decompression_context(), data, max_length=most)
    except (RuntimeError, EOFError):
        return None
    return out if whole and len(out) <= limit else None


def unframe_zstd(data: bytes, limit: int) -> bytes | None:
    """One Zstandard frame (RFC 8878) -> at most `limit` bytes; None when corrupt, cut short or larger."""
    stream = _ZSTD.decompressobj()
    parts: list[bytes] = []
    left = limit
    try:
        for at in range(0, len(data), ZSTD_AT_ONCE_BYTES):
            part = stream.decompress(data[at : at + ZSTD_AT_ONCE_BYTES])
            parts.append(part)
            left -= len(part)
            if stream.eof or left < 0:
                break
    except zstandard.ZstdError:
        return None
    if not stream.eof or left < 0:
        return None
    return parts[0] if len(parts) == 1 else b"".join(parts)


@final
class Inflater:
    """Reads a zlib stream (RFC 1950) field by field: never more than the field that is asked for, and 64 KiB, is inflated.

    `limit` bounds the bytes that are inflated in all. `read` raises ValueError with the reason, as a part of a sentence.
    """

    def __init__(self, packed: bytes, limit: int) -> None:
        self._stream = zlib.decompressobj()
        self._packed = packed
        self._at = 0
        self._tail = b""  # taken from `_packed`, not consumed by the stream yet
        self._left = limit
        self._ahead = b""

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > self._left + len(self._ahead):
            raise ValueError("the body inflates beyond what is allowed")
        parts = [self._ahead]
        missing = size - len(self._ahead)
        while missing > 0:
            part = self._inflate()
            if not part and not self._tail and self._at >= len(self._packed):
                raise ValueError("the body breaks off")
            parts.append(part)
            missing -= len(part)
        data = b"".join(parts)
        self._ahead = data[size:]
        return data[:size]

    def _inflate(self) -> bytes:
        if not self._tail:
            self._tail = self._packed[self._at : self._at + PACKED_AT_ONCE_BYTES]
            self._at += PACKED_AT_ONCE_BYTES
        try:
            out = self._stream.decompress(self._tail, min(INFLATED_AT_ONCE_BYTES, self._left))
        except zlib.error:
            raise ValueError("the body is not a zlib stream") from None
        self._tail = self._stream.unconsumed_tail
        self._left -= len(out)
        return out
