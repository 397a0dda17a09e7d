"""Decompression of bodies that a remoting producer compressed, for protocols without RocketMQ's flag (MessageSysFlag).

Bits 8 to 10 of the sys flag are the compression type: 1 LZ4 frame, 2 Zstandard, 3 zlib, and 0 zlib as older clients write it.
Decompression is bounded: it stops when the body exceeds the limit, and the body counts as unreadable.
"""

from __future__ import annotations

import zlib
from typing import Final

import lz4.frame
import zstandard

from domain.message import SYS_COMPRESSED, SYS_COMPRESSION_MASK
from domain.record import Record

TYPE_LZ4: Final = 0x100
TYPE_ZSTD: Final = 0x200
GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024

_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


def plain(record: Record, limit: int) -> bytes | None:
    """The body of a record, decompressed; None when it is corrupt or larger than `limit` bytes."""
    body = record.body
    sys_flag = record.sys_flag
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
    stream = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        out = stream.decompress(data, limit + 1)
    except zlib.error:
        return None
    return out if stream.eof and len(out) <= limit else None


def unframe_lz4(data: bytes, limit: int) -> bytes | None:
    """One LZ4 frame -> at most `limit` bytes; None when corrupt, cut short or larger."""
    stream = lz4.frame.LZ4FrameDecompressor()
    try:
        out: bytes = stream.decompress(data, max_length=limit + 1)
    except (RuntimeError, EOFError):
        return None
    return out if stream.eof and len(out) <= limit else None


def unframe_zstd(data: bytes, limit: int) -> bytes | None:
    """One Zstandard frame (RFC 8878) -> at most `limit` bytes; None when corrupt, cut short or larger."""
    try:
        with zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX).stream_reader(data, closefd=False) as reader:
            if len(reader.read(limit + 1)) > limit:
                return None
        # The reader above checks the size but does not report a truncated frame; the decompressor below does.
        stream = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX).decompressobj()
        out = stream.decompress(data)
    except zstandard.ZstdError:
        return None
    return out if stream.eof else None
