"""A small file beside a data directory that nobody locks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import final

from gateway.runtime.flusher import sync_folder, write_small
from gateway.runtime.owner_only import FILE_MODE, made_folders


@final
class SmallFile:
    """One file, which is replaced whole."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    def read(self) -> bytes:
        """Its content; b"": there is none. Raises OSError."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""

    def replace(self, data: bytes) -> None:
        """Replace it atomically and durably. Raises OSError."""
        fresh = self._path.with_name(self._path.name + ".new")
        folders = made_folders(self._path.parent)
        write_small(fresh, data, os.O_TRUNC, FILE_MODE)
        os.replace(fresh, self._path)
        for folder in (*folders, self._path.parent):
            sync_folder(folder)
