"""A thread for slow operations of the disk: flushing files and folders, and freeing the space of deleted files."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

from domain.errors import lacks_descriptor
from gateway.runtime.owner_only import FILE_MODE, made_folders
from gateway.runtime.spare_descriptors import SPARE

AGAIN_S: Final = 0.1
"""Seconds between two attempts to open a folder while there is no file descriptor for it."""

Synced = Callable[[OSError | None], None]


class _Flush(NamedTuple):
    handle: int
    folders: Sequence[Path]
    done: Synced


class _Free(NamedTuple):
    handle: int
    folder: Path


class _Call(NamedTuple):
    work: Callable[[], None]
    done: Synced


@final
class Flusher:
    """A thread that flushes file handles and calls back on the loop's thread.

    Requests for the same file that wait at the same time share one fdatasync. Each file is reported as soon as it is flushed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._ends = threading.Event()
        self._jobs: queue.SimpleQueue[_Flush | _Free | _Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def sync(self, handle: int, folders: Sequence[Path], done: Synced) -> None:
        """Flush the file `handle` and the entries of `folders`, then call `done` on the loop's thread.

        While there is no file descriptor to flush a folder with, the thread waits for one: nothing has failed.
        """
        self._jobs.put(_Flush(handle, folders, done))

    def free(self, handle: int, folder: Path) -> None:
        """Close `handle`, the last one of a file deleted from `folder`, -1: there is none; and flush the folder."""
        self._jobs.put(_Free(handle, folder))

    def call(self, work: Callable[[], None], done: Synced) -> None:
        """Run `work`, which may raise OSError, in the thread, then `done` on the loop's thread; in the order of the calls."""
        self._jobs.put(_Call(work, done))

    def stop(self) -> None:
        """Carry out the waiting operations and end the thread. Callbacks run in the next turn of the loop."""
        self._ends.set()
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            jobs = [self._jobs.get()]
            while not self._jobs.empty():
                jobs.append(self._jobs.get())
            files: dict[int, list[_Flush]] = {}
            freed: list[_Free] = []
            for job in jobs:
                if isinstance(job, _Flush):
                    files.setdefault(job.handle, []).append(job)
                elif isinstance(job, _Free):
                    freed.append(job)
                elif job is not None:
                    self._report(_called(job.work), [job])
            for handle, waiting in files.items():
                self._report(_flush(handle, waiting, self._ends), waiting)
            _free(freed)
            if None in jobs:
                return

    def _report(self, error: OSError | None, waiting: Sequence[_Flush | _Call]) -> None:
        try:
            self._loop.call_soon_threadsafe(_deliver, error, waiting)
        except RuntimeError:  # the loop is closed: the callbacks are dropped
            return


def sync_folder(path: Path) -> None:
    """Flush the entries of a folder: which files it has. Raises OSError."""
    handle = SPARE.opened(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_small(path: Path, data: bytes, flags: int, mode: int) -> None:
    """Write a whole file and flush it; `flags` and `mode` are those of `os.open`. Raises OSError."""
    handle = SPARE.opened(lambda: os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, mode))
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_small(path: Path, data: bytes) -> None:
    """Replace a whole file atomically and durably, for its owner alone; folders on the way to it are made. Raises OSError."""
    fresh = path.with_name(path.name + ".new")
    folders = made_folders(path.parent)
    write_small(fresh, data, os.O_TRUNC, FILE_MODE)
    os.replace(fresh, path)
    for folder in (*folders, path.parent):
        sync_folder(folder)


def _flush(handle: int, waiting: list[_Flush], ends: threading.Event) -> OSError | None:
    try:
        os.fdatasync(handle)
        for folder in dict.fromkeys(folder for job in waiting for folder in job.folders):
            _sync_folder_when_possible(folder, ends)
    except OSError as error:
        return error
    return None


def _sync_folder_when_possible(path: Path, ends: threading.Event) -> None:
    """`sync_folder`, as soon as there is a file descriptor for it, unless the thread `ends` before. Raises OSError."""
    while True:
        try:
            sync_folder(path)
        except OSError as error:
            if not lacks_descriptor(error) or ends.wait(AGAIN_S):
                raise
        else:
            return


def _called(work: Callable[[], None]) -> OSError | None:
    try:
        work()
    except OSError as error:
        return error
    return None


def _free(freed: list[_Free]) -> None:
    for job in freed:
        if job.handle >= 0:
            os.close(job.handle)
    for folder in dict.fromkeys(job.folder for job in freed):
        try:
            sync_folder(folder)
        except OSError:  # nothing relies on it: a deleted file that a power failure brings back is deleted again
            continue


def _deliver(error: OSError | None, waiting: Sequence[_Flush | _Call]) -> None:
    for job in waiting:
        job.done(error)
