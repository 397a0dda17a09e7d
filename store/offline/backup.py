"""Backups of a data directory that no node has open: their files, the check of a copy, and the mark of a restored log."""

from __future__ import annotations

from typing import Final

from domain.errors import StoreError
from domain.ports import Disk
from domain.store.backup import BackupPlan
from store.checkpoint import derived_damage
from store.checkpoint import points as checkpoints
from store.keys import run
from store.log import promise
from store.log.segment import FOLDER
from store.offline.check import log_segments
from store.queue.block_files import FOLDER as INDEX_FOLDER

DERIVED: Final = (checkpoints.FOLDER, checkpoints.SNAPSHOT_FOLDER, INDEX_FOLDER, run.FOLDER)
"""Folders that the log can replace."""
MARK: Final = f"{promise.FOLDER}/0"


def plan(disk: Disk) -> BackupPlan:
    """All files of a data directory that no node has open. Raises OSError."""
    names = [f"{folder}/{name}" for folder in (FOLDER, *DERIVED) for name in disk.names(folder)]
    if disk.size(derived_damage.REBUILD) >= 0:
        names.append(derived_damage.REBUILD)
    files = [(name, disk.size(name)) for name in names]
    _, mark, _ = promise.newest(disk)
    segments = log_segments(disk)
    first, end = (0, 0) if segments is None else (segments.first, segments.end)
    if segments is not None:
        segments.close()
    if mark is None:
        return BackupPlan(files, b"", 0, first, end)
    return BackupPlan(files, promise.encode(mark, 1), mark.incarnation, mark.first, max(end, mark.position))


def records(disk: Disk) -> int:
    """The number of records in the log of a whole directory. Raises OSError."""
    segments = log_segments(disk)
    if segments is None:
        return 0
    try:
        return sum(header.count for header, _ in segments.walk(segments.first, False))
    finally:
        segments.close()


def mark_of(data: bytes, incarnation: int) -> bytes:
    """Content of `promise/0` of a log that continues the one of mark `data` under another identity. Raises StoreError."""
    if not data:
        return b""
    found = promise.decode(data)
    if found is None:
        raise StoreError(f"{MARK} holds no valid mark", MARK)
    return promise.encode(found[1]._replace(incarnation=incarnation), 1)
