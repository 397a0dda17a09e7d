"""Read holds: from which offsets a reader still needs the messages of a topic's queues, and until when.

A hold keeps messages from retention by age. Bounds of bytes, and the pressure of a full disk, are stronger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SPACE: Final = "hold"
"""State space of holds: key -> `encode`."""
HOLD_MS_MAX: Final = 24 * 3600 * 1000
HOLDS_MAX: Final = 1_000
"""Holds of a node."""
QUEUES_MAX: Final = 1_000
"""Queues of one hold."""


def key_of(name: str, topic: str) -> bytes:
    """The key of a hold. `name` is the reader's."""
    return f"{topic}\x00{name}".encode()


def encode(until_ms: int, offsets: Mapping[int, int]) -> bytes:
    """When the hold ends (epoch milliseconds), and queue id -> first offset that it holds."""
    return " ".join([str(until_ms), *(f"{queue_id}:{offset}" for queue_id, offset in sorted(offsets.items()))]).encode()


def decode(value: bytes) -> tuple[int, dict[int, int]]:
    """The hold of an encoded value: the arguments of `encode`."""
    until_ms, *pairs = value.decode().split(" ")
    split = (pair.split(":") for pair in pairs)
    return int(until_ms), {int(queue_id): int(offset) for queue_id, offset in split}


def topic_of(key: bytes) -> str:
    """Return the topic of a key: the part before U+0000."""
    return key.decode().partition("\x00")[0]
