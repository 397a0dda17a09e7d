"""Files of a data directory and of backups are for their owner alone: how they are made, and how those of before are closed.

Passwords, keys and messages are in them in the clear. Modes are those of `os.open` and `mkdir`, so that there is no moment in
which somebody else can read a new file, whatever the umask is.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

log = logging.getLogger("headgate.node")


def made_folders(path: Path) -> list[Path]:
    """Make the folder `path` where it is missing, and those above it; the folders that have new entries. Raises OSError."""
    if path.is_dir():
        return []
    changed = made_folders(path.parent)
    path.mkdir(FOLDER_MODE, exist_ok=True)
    changed.append(path.parent)
    return changed


def close_to_others(folder: Path, is_ours: Callable[[str], bool], known: bool) -> None:
    """Take the rights of group and others from `folder` and its entries; one line in the log when there were any.

    A folder with an entry that is not ours stays as it is, since somebody may have given a home directory, or `/tmp`. Of what
    is in it, our entries are closed if `known`: this is known to be a data directory. Links are not followed.
    """
    closing = _Closing()
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        closing.failed(error)
    else:
        try:
            names = sorted(os.listdir(handle))
            foreign = [name for name in names if not is_ours(name)]
            if not foreign and not os.fstat(handle).st_mode & stat.S_ISVTX:
                closing.close(handle)
            for name in names if known or not foreign else []:
                if is_ours(name):
                    closing.walk(handle, name)
            closing.beside = foreign[0] if foreign else ""
        finally:
            os.close(handle)
    closing.notify(folder)


@final
class _Closing:
    """Takes rights from files and folders, and counts those that were open and those that it could not change.

    beside   an entry of the folder that is not ours; "": there is none
    """

    def __init__(self) -> None:
        self.beside = ""
        self._closed = 0
        self._left = 0
        self._why = ""

    def walk(self, parent: int, name: str) -> None:
        """Close an entry of the open folder `parent`, and its own entries."""
        try:
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode) and not (stat.S_ISREG(mode) and mode & _OTHERS):
                return
            handle = os.open(name, _OPEN, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            self.failed(error)
            return
        try:
            self.close(handle)
            for each in os.listdir(handle) if stat.S_ISDIR(mode) else ():
                self.walk(handle, each)
        finally:
            os.close(handle)

    def close(self, handle: int) -> None:
        """Close an open file or folder."""
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if not mode & _OTHERS:
            return
        try:
            os.fchmod(handle, mode & ~_OTHERS)
            self._closed += 1
        except OSError as error:
            self.failed(error)

    def failed(self, error: OSError) -> None:
        """Note that a file or folder keeps its rights, and why."""
        self._left += 1
        self._why = self._why or error.strerror or str(error)

    def notify(self, folder: Path) -> None:
        """Log one line for the rights that were changed, and one for those that could not be."""
        if self._closed:
            stays = f"; {folder} itself stays as it is, since it holds other things ({self.beside})" if self.beside else ""
            log.warning("%s: %d files and folders were open to others: only their owner has rights now%s",
                        folder, self._closed, stays)  # fmt: skip
        if self._left:
            log.warning(
                "%s: %d files and folders are open to others, or may be, and this process cannot change that (%s): "
                "run `chmod -R go= %s` as their owner",
                folder, self._left, self._why, folder,
            )  # fmt: skip
