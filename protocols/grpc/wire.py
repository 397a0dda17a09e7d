"""Protobuf encoding without generated classes, for the responses that are encoded for each message: tags, varints, lengths.

Rare responses use the generated classes; tests check that both encodings are equal.
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
    """An unsigned number below 2**64; negative values of int64 fields are passed as `value & (2**64 - 1)`."""
    if value < 2048:
        return _SMALL[value]
    return _varint(value)


def text(tag: bytes, value: bytes) -> bytes:
    """A length-delimited field: tag, length, bytes."""
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
