"""The position of a reader in all queues of a topic, as a short text: the id of a server-sent event.

    c  base64url( check 6 | epoch | for each queue, by number: number less the one before, offset )      numbers as varints

The check binds a cursor to its topic and queue, and finds texts that were cut or made up. It is no secret: a cursor grants
nothing that the parameters `queue` and `from` do not, and every read is checked against the rights of the reader.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from domain import limits

CURSOR_BYTES_MAX: Final = 4_096
"""Length of a cursor for FOLLOWED_QUEUES_MAX queues, at most."""
MARK: Final = "c"
"""The first character of a cursor."""
KEPT_MAX: Final = 512
_CHECK_BYTES: Final = 6
_NUMBER_BYTES_MAX: Final = 9


def encode(topic: str, queue_id: int, epoch: int, offsets: Mapping[int, int]) -> str:
    """A cursor. `queue_id`: the queue that is followed alone; -1: all."""
    return _encode(topic, queue_id, epoch, tuple(sorted(offsets.items())))


@lru_cache(KEPT_MAX)
def _encode(topic: str, queue_id: int, epoch: int, offsets: tuple[tuple[int, int], ...]) -> str:
    """Readers of a live topic are at the same position, so most cursors are made once."""
    body = bytearray()
    _put(body, epoch)
    last = 0
    for queue, offset in offsets:
        _put(body, queue - last)
        _put(body, offset)
        last = queue
    raw = bytes(body)
    return MARK + urlsafe_b64encode(_check(topic, queue_id, raw) + raw).rstrip(b"=").decode()


def decode(topic: str, queue_id: int, text: str) -> tuple[int, dict[int, int]] | None:
    """(epoch, queue id -> offset) of a cursor of this topic; None for any other text."""
    if len(text) > CURSOR_BYTES_MAX or text[:1] != MARK or not text.isascii():
        return None
    try:
        found = urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4))
    except binascii.Error:
        return None
    raw = found[_CHECK_BYTES:]
    if found[:_CHECK_BYTES] != _check(topic, queue_id, raw):
        return None
    numbers: list[int] = []
    at = 0
    while at < len(raw):
        value = shift = 0
        while True:
            if at >= len(raw) or shift >= 7 * _NUMBER_BYTES_MAX:
                return None
            byte = raw[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        numbers.append(value)
    if len(numbers) % 2 == 0 or len(numbers) > 1 + 2 * limits.FOLLOWED_QUEUES_MAX:
        return None
    offsets: dict[int, int] = {}
    queue = 0
    for step, offset in zip(numbers[1::2], numbers[2::2], strict=True):
        queue += step
        offsets[queue] = offset
    return numbers[0], offsets


def _put(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _check(topic: str, queue_id: int, raw: bytes) -> bytes:
    return blake2b(raw, digest_size=_CHECK_BYTES, person=b"headgate-cursor", key=f"{queue_id} {topic}".encode()[:64]).digest()
