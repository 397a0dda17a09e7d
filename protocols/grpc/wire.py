"""Protobuf by hand, for the answers that are written once a message: tags, varints and lengths over bytes.

Cold answers are built with the generated classes; tests hold both against each other.
"""

from __future__ import annotations

from typing import Final


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final[list[bytes]] = [_varint(value) for value in range(2048)]


def varint(value: int) -> bytes:
    """An unsigned number below 2**64; int64 fields give negative ones as `value & (2**64 - 1)`."""
    if value < 2048:
        return _SMALL[value]
    return _varint(value)


def text(tag: bytes, value: bytes) -> bytes:
    """A length-delimited field: its tag, its length, its bytes."""
    size = len(value)
    if size < 2048:
        return tag + _SMALL[size] + value
    return tag + _varint(size) + value


def timestamp(tag: bytes, ms: int) -> bytes:
    """A google.protobuf.Timestamp field of epoch milliseconds >= 0."""
    seconds = ms // 1000
    nanos = ms % 1000 * 1_000_000
    content = b"\x08" + _varint(seconds)
    if nanos:
        content += b"\x10" + _varint(nanos)
    return tag + _SMALL[len(content)] + content
