"""A disk that deletes nothing while a backup copies its files: deletions are carried out when the last hold ends.

Files that a crash leaves are deleted as after any crash: by the next start, or by the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.ports import Disk, File

HELD_FOLDERS: Final = ("log/", "index/", "keys/", "snapshot/", "checkpoint/")


@final
class BackupDisk:
    """The `Disk` port over another disk.

    held    True while nothing in `HELD_FOLDERS` is deleted
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.held = False
        self._left: dict[str, None] = {}

    def release(self) -> list[OSError]:
        """Carry out the deletions; returns the errors of files that the disk did not delete, which the next start deletes."""
        self.held = False
        left, self._left = self._left, {}
        errors: list[OSError] = []
        for name in left:
            try:
                self._disk.remove(name)
            except OSError as error:
                errors.append(OSError(error.errno, error.strerror or str(error), name))
        return errors

    def remove(self, name: str) -> None:
        """Disk.remove, at once or when the hold ends."""
        if self.held and name.startswith(HELD_FOLDERS):
            self._left[name] = None
        else:
            self._disk.remove(name)

    def open(self, name: str) -> File:
        """Disk.open. A file marked for deletion is deleted and created again: no plan includes such a file."""
        if self._left.pop(name, name) is None:
            self._disk.remove(name)
        return self._disk.open(name)

    def names(self, folder: str) -> list[str]:
        """Disk.names."""
        return self._disk.names(folder)

    def size(self, name: str) -> int:
        """Disk.size."""
        return self._disk.size(name)

    def read_all(self, name: str) -> bytes | None:
        """Disk.read_all."""
        return self._disk.read_all(name)

    def replace(self, name: str, data: bytes) -> None:
        """Disk.replace."""
        self._disk.replace(name, data)

    def replace_soon(self, name: str, data: bytes, done: Callable[[OSError | None], None]) -> None:
        """Disk.replace_soon."""
        self._disk.replace_soon(name, data, done)

    def rename(self, old: str, new: str) -> None:
        """Disk.rename."""
        self._disk.rename(old, new)

    def rename_soon(self, old: str, new: str, done: Callable[[OSError | None], None]) -> None:
        """Disk.rename_soon."""
        self._disk.rename_soon(old, new, done)

    def free_ratio(self) -> float:
        """Disk.free_ratio."""
        return self._disk.free_ratio()
