"""Count of what a data directory keeps that was set aside. A heartbeat has it four times a second, so that it is cached."""

from __future__ import annotations

from os import scandir
from pathlib import Path
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.set_aside import ASIDE, NOTHING, KeptAside
from domain.walk import Walk, Walks

LOOK_NS: Final = 10_000 * MILLISECOND_NS
"""Time between two looks at the directory."""
FILES_MAX: Final = 10_000
"""Files that are counted in one look."""


@final
class AsideFigure:
    """The folders in `set-aside` of one data directory, and their bytes, as the last look has found them.

    A look is a walk, a file or folder in each step. It begins LOOK_NS after the one before, if that is at its end.
    """

    def __init__(self, folder: Path, walks: Walks) -> None:
        self._place = folder / ASIDE
        self._walks = walks
        self._found = NOTHING
        self._looking = False
        self._next_ns = 0

    def look(self) -> KeptAside:
        """The figure. What the disk does not give counts as before."""
        now = self._walks.clock.monotonic_ns()
        if now >= self._next_ns and not self._looking:
            self._next_ns = now + LOOK_NS
            self._looking = True
            self._walks.begin(self._look())
        return self._found

    def _look(self) -> Walk:
        try:
            yield from self._count()
        except OSError:
            return
        finally:
            self._looking = False

    def _count(self) -> Walk:
        folders = size = files = 0
        left = [self._place] if self._place.is_dir() else []
        while left:
            place = left.pop()
            with scandir(place) as found:
                for each in found:
                    is_folder = each.is_dir(follow_symlinks=False)
                    folders += is_folder and place is self._place
                    files += place is not self._place
                    if files > FILES_MAX:
                        left = []
                        break
                    if is_folder:
                        left.append(Path(each.path))
                    elif place is not self._place and each.is_file():
                        size += each.stat().st_size
                    yield
        self._found = KeptAside(folders, size)
