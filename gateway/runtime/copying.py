"""Copies of files and folders that are durable on return, made in slices that leave the disk time for others."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.runtime.flusher import sync_folder, write_small
from gateway.runtime.owner_only import FILE_MODE, FOLDER_MODE

SLICE_BYTES: Final = 8 * 1024 * 1024


class FileCopies:
    """Operations on files. Each raises OSError."""

    def __init__(self, gentle: bool = False) -> None:
        """`gentle`: after each slice rest for as long as it took, so that others have half of the disk's time."""
        self._gentle = gentle

    def make_folder(self, path: Path) -> None:
        """Make a folder that only its owner can read; those above it have to exist."""
        path.mkdir(FOLDER_MODE)

    def copy(self, source: Path, target: Path, size: int, copied: Callable[[int], None]) -> None:
        """Copy the first `size` bytes to a new file; `copied` gets the bytes of each slice. EOFError when there are fewer."""
        reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
            try:
                done = 0
                while done < size:
                    done += self._slice(reading, writing, done, min(SLICE_BYTES, size - done), source)
                    copied(done)
                os.fsync(writing)
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    def _slice(self, reading: int, writing: int, at: int, size: int, source: Path) -> int:
        began = time.monotonic()
        data = os.pread(reading, size, at)
        if not data:
            raise EOFError(f"{source} has {at:,} bytes, and more are wanted")
        view = memoryview(data)
        while view:
            view = view[os.write(writing, view) :]
        if self._gentle:
            os.fdatasync(writing)
            time.sleep(time.monotonic() - began)
        return len(data)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        os.link(source, target)

    def write(self, path: Path, data: bytes) -> None:
        """Write a new small file."""
        write_small(path, data, os.O_EXCL, FILE_MODE)

    def sync_folders(self, path: Path) -> None:
        """Make the names in a folder, and in those below it, durable."""
        for folder, _, _ in os.walk(path):
            sync_folder(Path(folder))

    def rename(self, old: Path, new: Path) -> None:
        """Rename a folder, durably."""
        os.rename(old, new)
        sync_folder(new.parent)

    def remove_tree(self, path: Path) -> None:
        """Delete a folder with all that is in it."""
        shutil.rmtree(path)
