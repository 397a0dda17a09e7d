"""A write that may be repeated, and the test whether a disk has room again."""

from __future__ import annotations

from typing import Final, final

from domain.ports import Disk

PROBE: Final = "room"
PROBE_BYTES: Final = 1024 * 1024
"""Least room before writes are taken again."""


@final
class NotWrittenError(OSError):
    """A write found the disk full, and nothing of it was written. Unlike a sync that fails so, it may be repeated."""


def probe(disk: Disk) -> None:
    """Write PROBE_BYTES and remove them. Raises OSError when there is no room for them, or no file can be opened."""
    file = disk.open(PROBE)
    try:
        file.append(bytes(PROBE_BYTES))
    finally:
        file.close()
        disk.remove(PROBE)
