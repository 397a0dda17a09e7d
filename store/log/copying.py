"""Copies of parts of the log: durable ones of whole files, and reads of files that the disk can read in part only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from domain.errors import lacks_descriptor
from domain.ports import Disk

NEW: Final = ".new"
"""Suffix of the name of an incomplete file, which is never used."""
COPY_BYTES: Final = 1024 * 1024
"""Bytes that one step of a copy reads."""
_SECTOR_BYTES: Final = 4_096


def write_copy(disk: Disk, name: str, parts: Iterable[bytes]) -> None:
    """Write `parts` to the file `name`, which has all of them, or does not exist, whenever the process ends. Raises OSError."""
    copy = disk.open(name + NEW)
    try:
        copy.truncate(0)
        for part in parts:
            copy.append(part)
    finally:
        copy.close()
    disk.rename(name + NEW, name)


def in_steps(read: Callable[[int, int], bytes], begin: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from `begin` to `end`, COPY_BYTES at a time. `read` is `File.read`."""
    for at in range(begin, end, COPY_BYTES):
        yield read(at, min(COPY_BYTES, end - at))


def salvaged(read: Callable[[int, int], bytes], at: int, size: int) -> bytes:
    """At most `size` bytes of a file from `at` on; zeros for sectors that the disk cannot read. `read` is `File.read`.

    Raises OSError without a file descriptor: zeros would replace good bytes.
    """
    try:
        return read(at, size)
    except OSError as error:
        if lacks_descriptor(error):
            raise
        if size <= _SECTOR_BYTES:
            return bytes(size)
    places = range(at, at + size, _SECTOR_BYTES)
    return b"".join([salvaged(read, place, min(_SECTOR_BYTES, at + size - place)) for place in places])
