"""The files of checkpoints: their list, their validity, and their content.

    checkpoint/<serial>   magic 4 | CRC 4 | index covers the log below 8 | end of the index 8 | state snapshot stands at 8
                          | serial of the snapshot 8 | first place of the index that is needed 8
                          | place of the index from which the heads of blocks are read 8
                          with the other magic, of an earlier version, the last one is missing: the heads of all blocks are read
    snapshot/<serial>     store/checkpoint/snapshot.py

A file is written under a new name and is valid when its CRCs are right. The newest two checkpoints are kept, with all that they
need: when the newest or its snapshot is damaged, the start uses the other one, and without any it reads the whole log.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from domain.errors import StoreError, lacks_descriptor
from domain.message.crc32 import crc32
from domain.ports import Disk
from domain.set_aside import ASIDE
from domain.store.store_event import StoreEventKind
from store.checkpoint import derived_damage, snapshot
from store.events import StoreEvents

FOLDER: Final = derived_damage.CHECKPOINTS
SNAPSHOT_FOLDER: Final = snapshot.FOLDER
MAGIC: Final = 0x48474352
MAGIC_BEFORE: Final = 0x48474351
_FRONT = struct.Struct(">II")
_POINT = struct.Struct(">qqqqqq")
_POINT_BEFORE = struct.Struct(">qqqqq")


class Point(NamedTuple):
    """A checkpoint.

    position      log position below which all records are in the index
    state         log position below which all state is in the snapshot, 0 when there is none
    index_first   place of the first block that the index needs
    table         place of the index up to which the snapshot has a table of the blocks; 0 without one
    """

    position: int
    index_end: int
    state: int
    serial: int
    snapshot: int
    index_first: int
    table: int


NONE: Final = Point(0, 0, 0, 0, 0, 0, 0)


class Points(NamedTuple):
    """The checkpoints on the disk.

    newest   the one to start from, NONE when the whole log is read
    older    the one to start from when the newest is damaged, NONE when there is none
    serial   the highest number of any file, damaged ones included
    """

    newest: Point
    older: Point
    serial: int


def find(disk: Disk, events: StoreEvents) -> Points:
    """The newest undamaged checkpoints. Damaged ones are set aside and reported. Raises OSError when that fails."""
    names = [name for name in disk.names(FOLDER) if name.isdigit()]
    serial = max(map(int, [*names, *(name for name in disk.names(SNAPSHOT_FOLDER) if name.isdigit())]), default=0)
    noted = disk.read_all(derived_damage.REBUILD)
    if noted is not None:
        derived_damage.set_checkpoints_aside(disk)
        events.notify(StoreEventKind.REBUILT, FOLDER, f"{noted.decode()}: the whole log is read")
        return Points(NONE, NONE, serial)
    found = NONE
    faults: list[tuple[str, str]] = []
    rest = list(names)
    while rest and found is NONE:
        name = rest.pop()
        point = read(disk, name)
        fault = _snapshot_fault(disk, point) if isinstance(point, Point) else point
        if fault or not isinstance(point, Point):
            faults.append((name, fault))
        else:
            found = point
    older = read(disk, rest[-1]) if rest else NONE
    instead = (
        f"checkpoint {found.serial} is used, and the log from {found.position} on" if found.serial else "the whole log is read"
    )
    for name, fault in faults:
        derived_damage.set_aside(disk, f"{FOLDER}/{name}")
        cause = f"{fault}; the checkpoint is set aside in {ASIDE}/, {instead}"
        events.notify(StoreEventKind.REBUILT, f"{FOLDER}/{name}", cause)
    return Points(found, older if isinstance(older, Point) else NONE, serial)


def poll(disk: Disk) -> tuple[Point, list[tuple[str, str]]]:
    """(newest undamaged checkpoint, (file, fault of it or of its snapshot) of each damaged one). Changes nothing."""
    found = NONE
    faults: list[tuple[str, str]] = []
    for name in sorted((name for name in disk.names(FOLDER) if name.isdigit()), reverse=True):
        point = read(disk, name)
        fault = _snapshot_fault(disk, point) if isinstance(point, Point) else point
        if fault:
            faults.append((f"{FOLDER}/{name}", fault))
        elif found is NONE and isinstance(point, Point):
            found = point
    return found, faults


def read(disk: Disk, name: str) -> Point | str:
    """Checkpoint in a file, or the fault of the file. Raises OSError without a file descriptor."""
    try:
        data = disk.read_all(f"{FOLDER}/{name}") or b""
    except OSError as error:
        if lacks_descriptor(error):
            raise
        return f"it cannot be read: {error}"
    facts = data[_FRONT.size :]
    crc = crc32(facts)
    table = 0
    if len(facts) == _POINT.size and data.startswith(_FRONT.pack(MAGIC, crc)):
        position, index_end, state, serial, index_first, table = _POINT.unpack(facts)
    elif len(facts) == _POINT_BEFORE.size and data.startswith(_FRONT.pack(MAGIC_BEFORE, crc)):
        position, index_end, state, serial, index_first = _POINT_BEFORE.unpack(facts)
    else:
        return "it is damaged, torn or of an unknown version"
    return Point(position, index_end, state, int(name), serial, index_first, table)


def _snapshot_fault(disk: Disk, point: Point) -> str:
    """Fault of the snapshot of a checkpoint, "" for none."""
    try:
        for _ in snapshot.frames(disk, point.snapshot) if point.state else ():
            pass
    except (OSError, StoreError) as error:
        return str(error)
    return ""


def encode(point: Point) -> bytes:
    """The content of the file of a checkpoint."""
    data = _POINT.pack(point.position, point.index_end, point.state, point.snapshot, point.index_first, point.table)
    return _FRONT.pack(MAGIC, crc32(data)) + data


def name_of(serial: int) -> str:
    """The file of a checkpoint."""
    return f"{FOLDER}/{serial:020d}"
