"""The folder `set-aside` of a data directory: files that were taken out of use, and are kept for an operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from domain.ports import Disk

ASIDE: Final = "set-aside"


class KeptAside(NamedTuple):
    """Content of the folder `set-aside` of a data directory.

    folders   number of its folders
    size      bytes of all files in them
    """

    folders: int = 0
    size: int = 0


NOTHING: Final = KeptAside()


def free_folder(disk: Disk, names: Iterable[str], folders: Sequence[str]) -> str:
    """The first of `names` in whose `folders` there is no file."""
    return next(name for name in names if not any(disk.names(f"{name}/{each}") for each in folders))
