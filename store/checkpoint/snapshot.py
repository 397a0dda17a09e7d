"""State snapshots: files of frames.

snapshot/<serial>   frames: kind 4 | CRC 4 | base of the log segment that holds them 8 | length 4 | body
    VALUES  state changes
    ROWS    state changes whose values are rows of 12 bytes: the place of the long value in the log
    TOPICS  topics, QUEUES  queues and their blocks, LEASES  idle lease tables: columns (store/checkpoint/columns.py); base 0
    FILES   files of the queue index, and the highest log position in each; base 0
    the last frame is an empty one of VALUES
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from domain.errors import StoreError
from domain.message.crc32 import crc32
from domain.ports import Disk
from domain.store.store_ports import StateChange
from store.state import change

FOLDER: Final = "snapshot"
VALUES: Final = 0x48474353
ROWS: Final = 0x48475258
TOPICS: Final = 0x48475254
QUEUES: Final = 0x48475251
LEASES: Final = 0x4847524C
FILES: Final = 0x48475246
KINDS: Final = (VALUES, ROWS, TOPICS, QUEUES, LEASES, FILES)
_FRAME = struct.Struct(">IIqI")
_PLACE = struct.Struct(">qI")

SnapshotItem = tuple[int, StateChange, bool]
"""(base of the segment of the newest record, change, True when its value is a row)."""


class Columns(NamedTuple):
    """The body of a frame of columns.

    kind    TOPICS, QUEUES, LEASES or FILES
    """

    kind: int
    body: bytes
    rows: int


class SnapshotSource(Protocol):
    """The source of a state snapshot."""

    def snapshot(self) -> Iterator[list[SnapshotItem] | Columns | None]:
        """All live values, in steps that fit into one turn; None for a step that found nothing.

        The iteration takes several turns; its values may be newer than its start.
        """


def name_of(serial: int) -> str:
    """The file of a state snapshot."""
    return f"{FOLDER}/{serial:020d}"


def encode(kind: int, base: int, body: bytes) -> bytes:
    """A frame."""
    return _FRAME.pack(kind, _crc(base, body), base, len(body)) + body


def encode_changes(base: int, group: list[StateChange], rows: bool) -> bytes:
    """A frame of changes."""
    return encode(ROWS if rows else VALUES, base, change.encode(group))


def first_frame(items: list[SnapshotItem], bytes_max: int) -> tuple[bytes, list[SnapshotItem]]:
    """(a frame of the first `items`, those of one segment and kind, up to `bytes_max` and one more; the others)."""
    base, _, rows = items[0]
    group: list[StateChange] = []
    size = 0
    for at, item, row in items:
        if at != base or row != rows or size >= bytes_max:
            break
        group.append(item)
        size += len(item.key) + len(item.value or b"")
    return encode_changes(base, group, rows), items[len(group) :]


def frames(disk: Disk, serial: int) -> Iterator[tuple[int, int, bytes]]:
    """(kind, base, body) of the frames of a snapshot. Raises StoreError, OSError."""
    name = name_of(serial)
    data = disk.read_all(name)
    if data is None:
        raise StoreError(f"{name} is missing", name)
    at = 0
    while True:
        if len(data) - at < _FRAME.size:
            raise StoreError(f"{name} ends at byte {len(data)}, within a frame", name)
        kind, crc, base, length = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        if kind not in KINDS or len(body) != length or _crc(base, body) != crc:
            raise StoreError(f"{name} is damaged at byte {at}", name)
        if not length:
            return
        yield kind, base, body
        at += _FRAME.size + length


def _crc(base: int, body: bytes) -> int:
    return crc32(body, crc32(_PLACE.pack(base, len(body))))
