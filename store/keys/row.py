"""One row of the key index: a key's hash and the position of its message, in 64 bits, so that rows sort as integers.

    CRC-32 of topic, NUL, key: 32 bits | position in the log, modulo 4 GiB: 32 bits

The rows of one sorted run belong to one span of 4 GiB. Hashes collide, so a search compares the key with the record.
"""

from __future__ import annotations

import sys
from array import array
from typing import Final

from domain.message import property as properties
from domain.message.crc32 import crc32

ROW_BYTES: Final = 8
LOW: Final = 0xFFFFFFFF
"""Mask of the position in a row."""
KEYS_PER_MESSAGE_MAX: Final = 128
"""Tokens of KEYS that are indexed; queries do not find a message by the tokens after these."""


def seed_of(topic: str) -> int:
    """The CRC-32 with which the hashes of a topic's keys start."""
    return crc32(topic.encode() + b"\x00")


def hash_of(key: str, seed: int) -> int:
    """The hash of one key; `seed` is that of its topic."""
    return crc32(key.encode("utf-8", "replace"), seed)


def tokens_of(stored: bytes) -> list[bytes]:
    """The keys in stored properties: the tokens of KEYS, separated by spaces, each once, in UTF-8."""
    at = stored.find(properties.KEYS_START)
    while at > 0 and stored[at - 1] != 2:
        at = stored.find(properties.KEYS_START, at + 1)
    if at < 0:
        return []
    at += len(properties.KEYS_START)
    end = stored.find(b"\x02", at)
    text = stored[at:] if end < 0 else stored[at:end]
    tokens = text.split(b" ")
    if len(tokens) > 1:
        tokens = list(dict.fromkeys(token for token in tokens if token))[:KEYS_PER_MESSAGE_MAX]
    return tokens if text.isascii() else [clean(token) for token in tokens]


def id_of(stored: bytes) -> bytes:
    """The unique id in stored properties in UTF-8, b"" without one."""
    found = properties.find(stored, properties.UNIQ_KEY_START)
    return found if found.isascii() else clean(found)


def clean(text: bytes) -> bytes:
    """`text` in valid UTF-8, with U+FFFD for invalid parts: readers of properties decode them in this way."""
    return text.decode("utf-8", "replace").encode()


def joined(halves: array[int]) -> array[int]:
    """Rows from their halves, each the low one first."""
    if sys.byteorder == "big":
        halves = halves[:]
        halves[::2], halves[1::2] = halves[1::2], halves[::2]
    return array("Q", halves.tobytes())


def pack(rows: array[int]) -> bytes:
    """Rows -> bytes of a file, little-endian."""
    if sys.byteorder == "big":
        rows = rows[:]
        rows.byteswap()
    return rows.tobytes()


def unpack(data: bytes) -> array[int]:
    """Bytes of a file, a multiple of ROW_BYTES -> rows."""
    rows = array("Q", data)
    if sys.byteorder == "big":
        rows.byteswap()
    return rows
