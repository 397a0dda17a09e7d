"""State changes as the body of a state record: `space 1 + n | key 2 + n | value 4 + n`, repeated; length -1 removes the key."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from domain.store.store_ports import StateChange

STATE_TOPIC: Final = "rmq_sys_headgate_state"
RECORD_OVERHEAD_BYTES: Final = 160
"""Upper bound of the bytes of a state record besides its body."""
LONG_VALUE_BYTES: Final = 160
"""Values from this size on stay in the log; the row in memory that refers to one takes a quarter of this."""

_KEY = struct.Struct(">H")
_VALUE = struct.Struct(">i")


def size(changes: Iterable[StateChange]) -> int:
    """Bytes that `changes` will take in the body of a state record."""
    total = 0
    for item in changes:
        total += 7 + len(item.space) + len(item.key)
        if item.value is not None:
            total += len(item.value)
    return total


def encode(changes: Iterable[StateChange]) -> bytes:
    """Changes -> body. Spaces are ASCII of at most 255 letters, keys at most 65,535 bytes."""
    out: list[bytes] = []
    for item in changes:
        space = item.space.encode("ascii")
        out.append(bytes((len(space),)))
        out.append(space)
        out.append(_KEY.pack(len(item.key)))
        out.append(item.key)
        if item.value is None:
            out.append(_VALUE.pack(-1))
        else:
            out.append(_VALUE.pack(len(item.value)))
            out.append(item.value)
    return b"".join(out)


def is_long(item: StateChange) -> bool:
    """True for a value that stays in the log: from LONG_VALUE_BYTES on, except in the store's own spaces (`@`)."""
    value = item.value
    return value is not None and LONG_VALUE_BYTES <= len(value) < 1 << 24 and not item.space.startswith("@")


def locate(items: Iterable[StateChange], position: int) -> None:
    """Set `at` of changes with long values. `position`: where in the log the body of `items` begins."""
    for item in items:
        position += 7 + len(item.space) + len(item.key)
        if item.value is not None:
            if is_long(item):
                item.at = position
            position += len(item.value)


def decode(body: bytes, position: int = -1) -> Iterator[StateChange]:
    """Body -> changes, in order. The CRC of its batch has been checked. `position` in the log sets `at`; -1 leaves it unset."""
    at = 0
    end = len(body)
    while at < end:
        cut = at + 1 + body[at]
        space = body[at + 1 : cut].decode("ascii")
        (length,) = _KEY.unpack_from(body, cut)
        key = body[cut + 2 : cut + 2 + length]
        at = cut + 2 + length
        (length,) = _VALUE.unpack_from(body, at)
        at += 4
        if length < 0:
            yield StateChange(space, key, None)
        else:
            item = StateChange(space, key, body[at : at + length])
            if position >= 0 and is_long(item):
                item.at = position + at
            yield item
            at += length
