"""A small file beside a data directory that nobody locks."""

from __future__ import annotations

from pathlib import Path
from typing import final

from gateway.runtime.flusher import replace_small


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
        replace_small(self._path, data)
