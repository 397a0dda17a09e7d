"""Damage of the files derived from the log: index and checkpoints. They are built again from the log alone.

found at the start      the checkpoints are set aside, and the start begins again without them
found while running     the reader gets an error, and a note makes the next start begin without checkpoints
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, final

from domain.errors import StoreError
from domain.ports import Disk
from domain.set_aside import ASIDE
from domain.store.store_event import StoreEventKind
from store.events import StoreEvents

T = TypeVar("T")

CHECKPOINTS: Final = "checkpoint"
REBUILD: Final = "rebuild"
"""File that exists while the next start has to build everything again; it holds the reason."""


@final
class DerivedDamageError(StoreError):
    """A file that the log can replace is damaged. Raised while the store opens."""


def set_aside(disk: Disk, name: str) -> None:
    """Move a file to `ASIDE`, durably. Raises OSError."""
    disk.rename(name, f"{ASIDE}/{name.replace('/', '-')}")


def set_checkpoints_aside(disk: Disk) -> None:
    """Make the next start read the whole log, since no checkpoint describes the valid part of the index. Raises OSError."""
    for name in disk.names(CHECKPOINTS):
        set_aside(disk, f"{CHECKPOINTS}/{name}")
    disk.remove(REBUILD)


def rebuilt(disk: Disk, events: StoreEvents, opened: Callable[[], T]) -> T:
    """`opened()`; once more without the checkpoints when it meets damage of the derived files. Raises StoreError, OSError."""
    try:
        return opened()
    except DerivedDamageError as error:
        set_checkpoints_aside(disk)
        cause = f"{error}; the checkpoints are set aside in {ASIDE}/, and the whole log is read"
        events.notify(StoreEventKind.REBUILT, error.file, cause, "", error)
        return opened()


def note(disk: Disk, reason: str) -> None:
    """Let the next start build everything again. Does nothing when the disk refuses."""
    try:
        if disk.read_all(REBUILD) is None:
            disk.replace(REBUILD, reason.encode())
    except OSError:
        return
