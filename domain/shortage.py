"""Shortages that may end by themselves and that a write meets: of room on the disk, and of file descriptors."""

from __future__ import annotations

import errno
from typing import Final, NamedTuple

from domain.errors import lacks_descriptor

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


class Lack(NamedTuple):
    """Texts about a shortage that a write has met.

    found    the shortage: `the disk full`
    until    condition under which writes continue
    remedy   advice to the operator
    ended    report of its end
    """

    found: str
    until: str
    remedy: str
    ended: str


_ROOM: Final = Lack(
    "found the disk full", "there is room", "free space on the volume, or raise the quota", "there is room on the disk"
)
_DESCRIPTORS: Final = Lack(
    "got no file descriptor", "one is free",
    "raise the limit of open files of the process (LimitNOFILE of the unit, `ulimit -n`; of the system: fs.file-max), "
    "or lower connections_max",
    "there are file descriptors",
)  # fmt: skip


def is_full(error: OSError) -> bool:
    """True when a write failed for a lack that ends by itself: the volume is full, the quota is used up, or the process or the
    system has no file descriptor left."""
    return error.errno in _FULL or lacks_descriptor(error)


def lack_of(error: OSError) -> Lack:
    """Lack behind an error that `is_full`."""
    return _DESCRIPTORS if lacks_descriptor(error) else _ROOM
