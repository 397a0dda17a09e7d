"""The data directory: files, and the threads that flush them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, final

from domain.errors import ConfigError, lacks_descriptor
from domain.ports import File
from gateway.runtime.flusher import Flusher, Synced, replace_small, sync_folder
from gateway.runtime.owner_only import FILE_MODE, close_to_others, made_folders
from gateway.runtime.spare_descriptors import SPARE

LOCK_NAME: Final = "lock"
LOG_FOLDER: Final = "log/"
"""Files of this folder have a flush thread of their own: senders wait for their flushes, nobody waits for those of others."""
_ENTRIES: Final = frozenset(
    (
        "abort", "audit", "begin-anew", "begin-anew-gone", "checkpoint", "clock_ms", "controller", "figures", "heir", "index",
        "keys", LOCK_NAME, "log",
        "lost+found", "promise", "rebuild", "replica", "replica-controllers", "replica-group", "replica-node",
        "replica-runs", "replica-seen", "replicated", "room", "set-aside",
        "snapshot", "state-replicas", "store-replicas", "tls",
    )
)  # fmt: skip
"""Files and folders that nodes and tools make in a data directory. A storage engine of another package may make more."""


@final
class DiskFile:
    """One append-only file: the `File` port. Its errors name it.

    _name      name within the data directory
    _folders   folders whose entries lead to this file and may not be durable; the next sync flushes them too
    _durable   folders that this process has flushed
    """

    __slots__ = ("_durable", "_flusher", "_folders", "_handle", "_name", "_size")

    def __init__(self, name: str, path: Path, flusher: Flusher, folders: Sequence[Path], durable: set[Path]) -> None:
        self._name = name
        self._flusher = flusher
        self._folders = folders
        self._durable = durable
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        self._size = os.fstat(self._handle).st_size

    def append(self, data: bytes) -> None:
        """Append all of `data`; raises OSError and appends nothing when that fails."""
        written = 0
        try:
            written = os.write(self._handle, data)
            while written < len(data):
                written += os.write(self._handle, memoryview(data)[written:])
        except OSError as error:
            error.filename = self._name
            self.truncate(self._size)
            raise
        self._size += written

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        try:
            return os.pread(self._handle, size, offset)
        except OSError as error:
            error.filename = self._name
            raise

    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        try:
            os.ftruncate(self._handle, size)
        except OSError as error:
            error.filename = self._name
            raise
        self._size = size

    def sync(self, done: Synced) -> None:
        """Flush in the thread, then call `done` on the loop's thread. The first sync makes the name durable too."""

        def synced(error: OSError | None) -> None:
            if error is not None:
                error.filename = self._name
            elif self._folders:
                self._durable.update(self._folders)
                self._folders = ()
            done(error)

        self._flusher.sync(self._handle, self._folders, synced)

    def close(self) -> None:
        """Close the handle. Must not be called while a sync is under way."""
        os.close(self._handle)


@final
class DataDirectory:
    """The `Disk` port over one folder, which it locks: two servers cannot share it.

    _log_flusher     flushes the files of LOG_FOLDER
    _other_flusher   flushes all other files, and frees the space of deleted ones
    _durable         folders that this process has flushed since it last made a file there
    """

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        """Lock the folder `path`, created when absent. Raises ConfigError when it is in use or cannot be written."""
        self.path = path.absolute()
        self._lock = _take(self.path)
        self._durable: set[Path] = set()
        self._log_flusher = Flusher(loop, "headgate-flush-log")
        self._other_flusher = Flusher(loop, "headgate-flush")

    def open(self, name: str) -> File:
        """Open for reading and appending. The name of the file is durable when its first sync has succeeded.

        That holds for a file that exists, too: the process that made it may have ended before its folder was flushed.
        """
        path = self._path(name)
        folders: list[Path] = []
        if not path.exists():
            folders = made_folders(path.parent)
            folders.append(path.parent)
            self._durable.discard(path.parent)
        elif path.parent not in self._durable:
            folders = [folder for folder in path.parents if folder.is_relative_to(self.path)]
        flusher = self._log_flusher if name.startswith(LOG_FOLDER) else self._other_flusher
        try:
            return SPARE.opened(lambda: DiskFile(name, path, flusher, folders, self._durable))
        except OSError as error:
            error.filename = name
            raise

    def names(self, folder: str) -> list[str]:
        """Names of the files directly in `folder`, sorted, without incomplete ones."""
        path = self._path(folder)
        if not path.is_dir():
            return []
        entries = SPARE.opened(lambda: list(os.scandir(path)))
        return sorted(entry.name for entry in entries if entry.is_file() and not entry.name.endswith(".new"))

    def size(self, name: str) -> int:
        """Bytes of a file; -1 when it does not exist."""
        try:
            return self._path(name).stat().st_size
        except FileNotFoundError:
            return -1

    def read_all(self, name: str) -> bytes | None:
        """The whole content of a small file; None when it does not exist."""
        try:
            return SPARE.opened(self._path(name).read_bytes)
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file atomically: write a new file, flush, rename, flush the folder."""
        try:
            replace_small(self._path(name), data)
        except OSError as error:
            error.filename = name
            raise

    def replace_soon(self, name: str, data: bytes, done: Synced) -> None:
        """Replace a file as `replace` does, in a thread; `done` gets the error or None on the loop's thread."""
        self._other_flusher.call(partial(self.replace, name, data), done)

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically and durably: flush its content, rename, flush the folders."""
        source, target = self._path(old), self._path(new)
        handle = SPARE.opened(lambda: os.open(source, os.O_RDONLY | os.O_CLOEXEC))
        try:
            os.fsync(handle)
            folders = made_folders(target.parent)
            os.replace(source, target)
            for folder in dict.fromkeys((*folders, target.parent, source.parent)):
                sync_folder(folder)
        except OSError as error:
            error.filename = old
            raise
        finally:
            os.close(handle)

    def rename_soon(self, old: str, new: str, done: Synced) -> None:
        """Rename a file in its folder at once; a thread makes that durable, and `done` gets the error or None on the loop's
        thread."""
        source, target = self._path(old), self._path(new)
        try:
            os.replace(source, target)
        except OSError as error:
            error.filename = old
            raise
        self._other_flusher.call(partial(sync_folder, target.parent), done)

    def remove(self, name: str) -> None:
        """Delete a file; a thread makes that durable. Does nothing when it does not exist.

        The handle keeps the content until the thread closes it: freeing a large file can take tens of milliseconds.
        Without a file descriptor for that, it is freed here.
        """
        path = self._path(name)
        handle = -1
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            if not lacks_descriptor(error):
                raise
        try:
            path.unlink(missing_ok=True)
        finally:
            self._other_flusher.free(handle, path.parent)

    def free_ratio(self) -> float:
        """Free share of the volume, 0 to 1, without the space reserved for root (as `df` computes it)."""
        facts = os.statvfs(self.path)
        usable = facts.f_blocks - facts.f_bfree + facts.f_bavail
        return facts.f_bavail / usable if usable else 1.0

    def close(self) -> None:
        """End the threads, when their waiting work is done, and unlock the folder."""
        self._log_flusher.stop()
        self._other_flusher.stop()
        os.close(self._lock)

    def _path(self, name: str) -> Path:
        parts = [part for part in name.split("/") if part]
        if any(part in (".", "..") for part in parts):
            raise ValueError(f"{name!r} leads out of the data directory")
        return self.path.joinpath(*parts)


def is_entry(name: str) -> bool:
    """True for the name of something that nodes make in a data directory."""
    return name.removesuffix(".new") in _ENTRIES


def _take(path: Path) -> int:
    import fcntl

    try:
        for folder in made_folders(path):
            sync_folder(folder)
        known = (path / LOCK_NAME).is_file()
        handle = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise ConfigError(
            f"data directory {path} cannot be written ({error.strerror}): choose another one with --data"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(handle)
        raise ConfigError(
            f"data directory {path} is in use by process {owner}: stop it, or choose another one with --data"
        ) from None
    close_to_others(path, is_entry, known)
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle
