"""The first answer to an append with a key, as the value of its state record.

0 created ms 8 | 8 length of the digest 1, digest | messages, each:
queue id 4 | queue offset 8 | position 8 | store ms 8 | length 2, message id | length 2, recall handle
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, final

from domain.message import property as properties
from domain.message.message import Message, Placed

_PLACE: Final = struct.Struct(">iqqq")
_HEAD_BYTES: Final = 9
_HANDLE_BYTES: Final = 1_024
"""Bound for a recall handle: a topic, a broker, a time and an id in base64."""


@final
class FirstAnswer(NamedTuple):
    """created_ms: epoch milliseconds of the append; digest: digest of the messages; placed: their places."""

    created_ms: int
    digest: bytes
    placed: list[Placed]


def size_max(digest: bytes, messages: Sequence[Message]) -> int:
    """Upper bound of the bytes of the first answer for `messages`."""
    size = _HEAD_BYTES + len(digest)
    for message in messages:
        size += _PLACE.size + 4 + len(message.message_id.encode())
        if properties.may_have_delay(message.properties):
            size += _HANDLE_BYTES
    return size


def encode(created_ms: int, digest: bytes, placed: Sequence[Placed]) -> bytes:
    """The value of the state record."""
    out = [created_ms.to_bytes(8, "big"), bytes((len(digest),)), digest]
    for place in placed:
        out.append(_PLACE.pack(place.queue_id, place.queue_offset, place.physical_offset, place.store_ms))
        for text in (place.message_id, place.recall_handle):
            raw = text.encode()
            out += (len(raw).to_bytes(2, "big"), raw)
    return b"".join(out)


def created_ms(value: bytes) -> int:
    """`FirstAnswer.created_ms` of a value."""
    return int.from_bytes(value[:8], "big")


def decode(value: bytes) -> FirstAnswer:
    """The value of a state record, whose CRC the log has checked."""
    at = _HEAD_BYTES + value[8]
    digest = value[_HEAD_BYTES:at]
    placed: list[Placed] = []
    while at < len(value):
        queue_id, offset, position, store_ms = _PLACE.unpack_from(value, at)
        at += _PLACE.size
        texts: list[str] = []
        for _ in range(2):
            end = at + 2 + int.from_bytes(value[at : at + 2], "big")
            texts.append(value[at + 2 : end].decode())
            at = end
        placed.append(Placed(queue_id, offset, position, store_ms, texts[0], texts[1]))
    return FirstAnswer(created_ms(value), digest, placed)
