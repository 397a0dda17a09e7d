"""Restart of a replica's log: the log is set aside, derived files are removed, and an empty log begins at the leader's first
position. A marker file makes the restart survive a crash at any moment: the next start completes it.
"""

from __future__ import annotations

from typing import Final

from domain.ports import Disk
from domain.set_aside import ASIDE
from store.checkpoint import derived_damage
from store.checkpoint import points as checkpoints
from store.checkpoint.recovery import ABORT
from store.keys import run as key_run
from store.log import promise as promises
from store.log.promise import Promise
from store.log.segment import FOLDER as LOG
from store.queue.block_files import FOLDER as INDEX

SUCCESSOR: Final = "heir"
"""File with the identity of the log that this one continues, until the controllers know this one."""
OURS: Final = "replicated"
"""File that exists when all of the log belongs to the store group: the node was empty when it became a replica, or has led."""
GONE: Final = "begin-anew-gone"
"""File that a restart has moved out of its folder to delete it."""
MARKER: Final = "begin-anew"
"""File that exists during a restart of the log: the first position, the new identity, and the folder in which the log is set
aside. Earlier versions deleted the log, and wrote no folder."""
_UNNAMED: Final = f"{ASIDE}/log-begin-anew"


def restart_log(disk: Disk, first: int, incarnation: int, aside: str) -> None:
    """Set the log aside in the folder `aside`, replacing its content, delete derived files, and begin at `first`. No file is
    open. Raises OSError; a later start continues."""
    for name in disk.names(f"{aside}/{LOG}"):
        disk.remove(f"{aside}/{LOG}/{name}")
    disk.replace(MARKER, b"%d %d %s\n" % (first, incarnation, aside.encode()))
    finish_beginning(disk)


def finish_beginning(disk: Disk) -> None:
    """Complete the restart that a marker describes, if there is one. Raises OSError."""
    noted = disk.read_all(MARKER)
    if not noted:
        disk.remove(MARKER)
        return
    first, incarnation, *named = noted.split()
    aside = named[0].decode() if named else _UNNAMED
    for folder in (checkpoints.FOLDER, checkpoints.SNAPSHOT_FOLDER, INDEX, key_run.FOLDER):
        names = [f"{folder}/{name}" for name in disk.names(folder)]
        for name in names[1:]:
            disk.remove(name)
        if names:
            disk.rename(names[0], GONE)  # flushes the folder too: no removed file returns into the new log
    disk.remove(GONE)
    for name in disk.names(LOG):
        if disk.size(f"{LOG}/{name}"):
            disk.rename(f"{LOG}/{name}", f"{aside}/{LOG}/{name}")
        else:
            disk.rename(f"{LOG}/{name}", GONE)
    disk.remove(GONE)
    for name in (derived_damage.REBUILD, ABORT, SUCCESSOR):
        disk.remove(name)
    promises.write(disk, Promise(int(first), 0, int(incarnation), int(first)))
    disk.replace(OURS, b"")
    # Emptied before it is removed: a power failure may bring a removed file back, and must not restart the new log.
    disk.replace(MARKER, b"")
    disk.remove(MARKER)
