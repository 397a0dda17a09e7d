"""Count of what a data directory keeps that was set aside. A heartbeat has it four times a second, so that it is cached."""

from __future__ import annotations

from pathlib import Path
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.set_aside import ASIDE, NOTHING, KeptAside

LOOK_NS: Final = 10_000 * MILLISECOND_NS
"""Time between two looks at the directory."""
FILES_MAX: Final = 10_000
"""Files that are counted: a look takes a turn of the loop."""


@final
class AsideFigure:
    """The folders in `set-aside` of one data directory, and their bytes, at most LOOK_NS old."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._place = folder / ASIDE
        self._clock = clock
        self._found = NOTHING
        self._next_ns = 0

    def look(self) -> KeptAside:
        """The figure. What the disk does not give counts as before."""
        now = self._clock.monotonic_ns()
        if now >= self._next_ns:
            self._next_ns = now + LOOK_NS
            try:
                self._found = _counted(self._place)
            except OSError:
                return self._found
        return self._found


def _counted(place: Path) -> KeptAside:
    folders = size = files = 0
    for each in place.iterdir() if place.is_dir() else ():
        folders += each.is_dir()
        for file in each.rglob("*"):
            files += 1
            if files > FILES_MAX:
                return KeptAside(folders, size)
            size += file.stat().st_size if file.is_file() else 0
    return KeptAside(folders, size)
