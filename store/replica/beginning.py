"""A new beginning: everything in the data directory goes, and an empty log begins where the leader says. It survives a crash at
any moment: a marker says what is under way, and the next start ends it.
"""

from __future__ import annotations

from typing import Final

from domain.ports import Disk
from store import derived
from store.checkpoint import points as checkpoints
from store.checkpoint.recovery import ABORT
from store.keys import run as key_run
from store.log import promise as promises
from store.log.promise import Promise
from store.log.segment import FOLDER as LOG
from store.queue.index import FOLDER as INDEX

HEIR: Final = "heir"
"""File that holds the identity of the log that this one continues, until the controllers know this one."""
OURS: Final = "replicated"
"""File that exists when all of the log is its store group's: the node was empty when it became a replica, or has led."""
GONE: Final = "begin-anew-gone"
"""File that a new beginning has moved out of its folder."""
MARKER: Final = "begin-anew"
"""File that exists while a new beginning is under way; it holds the first position and the new identity."""


def begin_anew(disk: Disk, first: int, incarnation: int) -> None:
    """Delete everything, and begin at `first`. No file is open. Raises OSError: a later call, or start, goes on with it."""
    disk.replace(MARKER, b"%d %d\n" % (first, incarnation))
    finish_beginning(disk)


def finish_beginning(disk: Disk) -> None:
    """End the new beginning that a marker tells of; without one do nothing. Raises OSError."""
    noted = disk.read_all(MARKER)
    if not noted:
        disk.remove(MARKER)
        return
    first, incarnation = map(int, noted.split())
    for folder in (checkpoints.FOLDER, checkpoints.SNAPSHOT_FOLDER, INDEX, key_run.FOLDER, LOG):
        names = [f"{folder}/{name}" for name in disk.names(folder)]
        for name in names[1:]:
            disk.remove(name)
        if names:
            disk.rename(names[0], GONE)  # and the folder is flushed: none of its files comes back into the log that begins
    disk.remove(GONE)
    for name in (derived.REBUILD, ABORT, HEIR):
        disk.remove(name)
    promises.write(disk, Promise(first, 0, incarnation, first))
    disk.replace(OURS, b"")
    # Emptied before it is removed: a power failure may bring a removed file back, and the log that has begun must not go again.
    disk.replace(MARKER, b"")
    disk.remove(MARKER)
