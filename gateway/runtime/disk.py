"""The data directory: files, and one thread that flushes them."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from domain.errors import ConfigError
from domain.ports import File

Synced = Callable[[OSError | None], None]
LOCK_NAME: Final = "lock"


@final
class Flusher:
    """A thread that flushes file handles and calls back on the loop's thread.

    Requests for the same file that wait at the same time share one fdatasync.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[tuple[int, Synced] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="headgate-flush", daemon=True)
        self._thread.start()

    def sync(self, handle: int, done: Synced) -> None:
        """Flush `handle`, then call `done` on the loop's thread."""
        self._jobs.put((handle, done))

    def stop(self) -> None:
        """Carry out waiting flushes and end the thread. Their callbacks run in the next turn of the loop."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            jobs = [self._jobs.get()]
            while not self._jobs.empty():
                jobs.append(self._jobs.get())
            waiting: dict[int, list[Synced]] = {}
            for job in jobs:
                if job is not None:
                    waiting.setdefault(job[0], []).append(job[1])
            reports = [(_flush(handle), callbacks) for handle, callbacks in waiting.items()]
            if reports:
                self._report(reports)
            if None in jobs:
                return

    def _report(self, reports: list[tuple[OSError | None, list[Synced]]]) -> None:
        try:
            self._loop.call_soon_threadsafe(_deliver, reports)
        except RuntimeError:  # the loop is closed: the callbacks are dropped
            return


def _flush(handle: int) -> OSError | None:
    try:
        os.fdatasync(handle)
    except OSError as error:
        return error
    return None


def _deliver(reports: list[tuple[OSError | None, list[Synced]]]) -> None:
    for error, callbacks in reports:
        for done in callbacks:
            done(error)


@final
class DiskFile:
    """One append-only file: the `File` port."""

    __slots__ = ("_flusher", "_handle", "_size")

    def __init__(self, path: Path, flusher: Flusher) -> None:
        self._flusher = flusher
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._handle).st_size

    def append(self, data: bytes) -> None:
        """Append all of `data`; raises OSError and appends nothing when that fails."""
        written = 0
        try:
            written = os.write(self._handle, data)
            while written < len(data):
                written += os.write(self._handle, memoryview(data)[written:])
        except OSError:
            os.ftruncate(self._handle, self._size)
            raise
        self._size += written

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return os.pread(self._handle, size, offset)

    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(self._handle, size)
        self._size = size

    def sync(self, done: Synced) -> None:
        """Flush in the thread, then call `done` on the loop's thread."""
        self._flusher.sync(self._handle, done)

    def close(self) -> None:
        """Close the handle. Must not be called while a sync is under way."""
        os.close(self._handle)


@final
class DataDirectory:
    """The `Disk` port over one folder, which it locks: two servers cannot share it."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        """Lock the folder `path`, created when absent. Raises ConfigError when it is in use or cannot be written."""
        self.path = path.absolute()
        self._lock = _take(self.path)
        self._flusher = Flusher(loop)

    def open(self, name: str) -> File:
        """Open for reading and appending. The name of a new file is durable when this returns."""
        path = self._path(name)
        fresh = not path.exists()
        if fresh:
            self._make_folder(path.parent)
        file = DiskFile(path, self._flusher)
        if fresh:
            _sync_folder(path.parent)
        return file

    def names(self, folder: str) -> list[str]:
        """Names of the files directly in `folder`, sorted, without incomplete ones."""
        path = self._path(folder)
        if not path.is_dir():
            return []
        return sorted(entry.name for entry in os.scandir(path) if entry.is_file() and not entry.name.endswith(".new"))

    def read_all(self, name: str) -> bytes | None:
        """The whole content of a small file; None when it does not exist."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file atomically: write a new file, flush, rename, flush the folder."""
        path = self._path(name)
        self._make_folder(path.parent)
        fresh = path.with_name(path.name + ".new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(fresh, path)
        _sync_folder(path.parent)

    def remove(self, name: str) -> None:
        """Delete a file. Does nothing when it does not exist."""
        self._path(name).unlink(missing_ok=True)

    def free_ratio(self) -> float:
        """Free share of the volume, 0 to 1, without the space reserved for root (as `df` computes it)."""
        facts = os.statvfs(self.path)
        usable = facts.f_blocks - facts.f_bfree + facts.f_bavail
        return facts.f_bavail / usable if usable else 1.0

    def close(self) -> None:
        """End the flush thread and unlock the folder."""
        self._flusher.stop()
        os.close(self._lock)

    def _path(self, name: str) -> Path:
        parts = [part for part in name.split("/") if part]
        if any(part in (".", "..") for part in parts):
            raise ValueError(f"{name!r} leads out of the data directory")
        return self.path.joinpath(*parts)

    def _make_folder(self, path: Path) -> None:
        if not path.is_dir():
            self._make_folder(path.parent)
            path.mkdir(exist_ok=True)
            _sync_folder(path.parent)


def _take(path: Path) -> int:
    import fcntl

    try:
        path.mkdir(parents=True, exist_ok=True)
        handle = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
