"""A block of the queue index: rows of consecutive offsets of one queue.

magic 4 | CRC-32 of header and name 4 | epoch of the topic 8 | first offset 8 | queue id 4 | rows 4 | last physical offset 8
length of the name 2 | name | groups

A group is `rows 4 | CRC-32 of the rows 4 | rows`, with GROUP_ROWS rows in all groups but the last, so that a few rows are read
and checked without the whole block.

A block with the other magic has no rows: its messages were lost in the gap of the log at its last physical offset.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, final

from domain.message.crc32 import crc32
from store.queue.row import ROW_BYTES

MAGIC: Final = 0x48474959
MAGIC_LOST: Final = 0x48474C58
HEADER_BYTES: Final = 42
NAME_BYTES_MAX: Final = 1_024
ROWS_MAX: Final = 512
GROUP_ROWS: Final = 64

GROUP_HEAD_BYTES: Final = 8
GROUP_BYTES: Final = GROUP_HEAD_BYTES + GROUP_ROWS * ROW_BYTES
"""Bytes of a full group."""

_FRONT = struct.Struct(">II")
_FACTS = struct.Struct(">qqiIqH")


@final
@dataclass(slots=True, eq=False)
class Block:
    """A decoded block header.

    epoch           epoch of the topic when the block was written (TopicEntry)
    last_physical   log position of the last row's record
    rows_at         bytes from the start of the block to its first group
    lost            True for a block of lost messages, which has no rows
    """

    topic: str
    queue_id: int
    epoch: int
    first: int
    count: int
    last_physical: int
    rows_at: int
    lost: bool

    @property
    def size(self) -> int:
        """Bytes of the whole block."""
        if self.lost:
            return self.rows_at
        return self.rows_at + self.count * ROW_BYTES + -(-self.count // GROUP_ROWS) * GROUP_HEAD_BYTES


def encode(topic: str, queue_id: int, epoch: int, first: int, last_physical: int, rows: bytes | bytearray) -> bytes:
    """Encoded rows of consecutive offsets, from `first` on -> block."""
    name = topic.encode()
    facts = _FACTS.pack(epoch, first, queue_id, len(rows) // ROW_BYTES, last_physical, len(name)) + name
    parts: list[bytes | bytearray] = [_FRONT.pack(MAGIC, crc32(facts)), facts]
    for at in range(0, len(rows), GROUP_ROWS * ROW_BYTES):
        group = rows[at : at + GROUP_ROWS * ROW_BYTES]
        parts += (_FRONT.pack(len(group) // ROW_BYTES, crc32(group)), group)
    return b"".join(parts)


def rows_of(data: bytes, groups: int) -> bytes | None:
    """The encoded rows of the first `groups` groups of `data`; None when one of them is not whole, or its CRC is wrong."""
    parts: list[bytes] = []
    for at in range(0, groups * GROUP_BYTES, GROUP_BYTES):
        if at + GROUP_HEAD_BYTES > len(data):
            return None
        count, crc = _FRONT.unpack_from(data, at)
        rows = data[at + GROUP_HEAD_BYTES : at + GROUP_HEAD_BYTES + count * ROW_BYTES] if 0 < count <= GROUP_ROWS else b""
        if not rows or len(rows) != count * ROW_BYTES or crc32(rows) != crc:
            return None
        parts.append(rows)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def encode_lost(topic: str, queue_id: int, epoch: int, first: int, position: int, count: int) -> bytes:
    """`count` messages from offset `first` on, lost in the gap at `position` of the log -> block."""
    name = topic.encode()
    facts = _FACTS.pack(epoch, first, queue_id, count, position, len(name)) + name
    return _FRONT.pack(MAGIC_LOST, crc32(facts)) + facts


def header(data: bytes) -> Block | None:
    """The block header at the start of `data`; None when there is none, or when `data` ends within the name."""
    if len(data) < HEADER_BYTES:
        return None
    magic, crc = _FRONT.unpack_from(data)
    epoch, first, queue_id, count, last_physical, length = _FACTS.unpack_from(data, 8)
    rows_at = HEADER_BYTES + length
    if magic not in (MAGIC, MAGIC_LOST) or len(data) < rows_at or crc32(data[8:rows_at]) != crc:
        return None
    name = data[HEADER_BYTES:rows_at].decode()
    return Block(name, queue_id, epoch, first, count, last_physical, rows_at, magic == MAGIC_LOST)
