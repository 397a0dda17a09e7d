"""A full disk: the one failure of a write that heals by itself."""

from __future__ import annotations

import errno
from typing import Final, final

from domain.ports import Disk

PROBE: Final = "room"
PROBE_BYTES: Final = 1024 * 1024
"""Room that there has to be before writes are taken again."""
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


@final
class NotWrittenError(OSError):
    """A write found the disk full, and nothing of it was written. Unlike a sync that fails so, it may be repeated."""


def is_full(error: OSError) -> bool:
    """True when a write failed because the volume is full or the quota is used up."""
    return error.errno in _FULL


def probe(disk: Disk) -> None:
    """Write PROBE_BYTES and remove them. Raises OSError when there is no room for them."""
    file = disk.open(PROBE)
    try:
        file.append(bytes(PROBE_BYTES))
    finally:
        file.close()
        disk.remove(PROBE)
