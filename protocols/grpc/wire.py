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
_NANOS: Final[list[bytes]] = [b"", *[b"\x10" + _varint(ms * 1_000_000) for ms in range(1, 1_000)]]
"""The field `nanos` of a Timestamp, by milliseconds."""
_SECONDS: Final[dict[int, bytes]] = {}
"""Seconds -> the field `seconds`: messages that are received together have few of them."""
SECONDS_MAX: Final = 1_024


def varint(value: int) -> bytes:
    """An unsigned number below 2**64; negative values of int64 fields are passed as `value & (2**64 - 1)`."""
    if value < 2048:
        return _SMALL[value]
    return _varint(value)


def contents(message: bytes, number: int, most: int, start: int = 0, end: int = -1) -> list[int] | None:
    """Places of the contents of the length-delimited fields `number` in an encoded message: start, end, start, end, …

    None when the message has more than `most` fields, or cannot be split into fields. It is for large messages of strangers:
    an empty field has 2 bytes, of which reading it with the generated classes makes an object of some hundred.
    `start` and `end` are those of a message inside of another one.
    """
    at = start
    if end < 0:
        end = len(message)
    found: list[int] = []
    while at < end:
        most -= 1
        if most < 0:
            return None
        tag = shift = 0
        while at < end and message[at] > 0x7F and shift < 63:
            tag |= (message[at] & 0x7F) << shift
            shift += 7
            at += 1
        if at >= end:
            return None
        tag |= message[at] << shift
        at += 1
        kind = tag & 7
        if kind in (1, 5):
            at += 4 if kind == 5 else 8
            continue
        if kind not in (0, 2):
            return None
        value = shift = 0
        while at < end and message[at] > 0x7F and shift < 63:
            value |= (message[at] & 0x7F) << shift
            shift += 7
            at += 1
        if at >= end:
            return None
        value |= message[at] << shift
        at += 1
        if kind == 2:
            if tag >> 3 == number:
                found.append(at)
                found.append(at + value)
            at += value
    return found if at == end else None


def text(tag: bytes, value: bytes) -> bytes:
    """A length-delimited field: tag, length, bytes."""
    size = len(value)
    if size < 2048:
        return tag + _SMALL[size] + value
    return tag + _varint(size) + value


def timestamp(tag: bytes, ms: int) -> bytes:
    """A google.protobuf.Timestamp field of epoch milliseconds >= 0."""
    seconds = ms // 1_000
    field = _SECONDS.get(seconds)
    if field is None:
        if len(_SECONDS) >= SECONDS_MAX:
            _SECONDS.clear()
        field = _SECONDS[seconds] = b"\x08" + _varint(seconds)
    content = field + _NANOS[ms % 1_000]
    return tag + _SMALL[len(content)] + content
