"""File descriptors that are held open for the store: connections that are accepted, and refused in the next turn, may take all
others for a moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeVar, final

from domain.errors import lacks_descriptor

HELD: Final = 16
"""Descriptors that a process with a store holds: more than its store opens in one turn of the loop."""
Made = TypeVar("Made")


@final
class SpareDescriptors:
    """A number of open descriptors, which are closed when a file of the store needs one, and opened again when possible.

    Threads may use it at the same time: a list's `append` and `pop` are atomic.
    """

    def __init__(self) -> None:
        self._count = 0
        self._held: list[int] = []

    def hold(self, count: int) -> None:
        """Hold `count` of them from now on."""
        self._count = count
        while len(self._held) > count:
            os.close(self._held.pop())
        self._fill()

    def opened(self, make: Callable[[], Made]) -> Made:
        """The result of `make`, which opens a file. Raises OSError, for want of a descriptor only when none is held."""
        while True:
            try:
                made = make()
            except OSError as error:
                if not lacks_descriptor(error) or not self._release():
                    raise
            else:
                self._fill()
                return made

    def _release(self) -> bool:
        try:
            os.close(self._held.pop())
        except IndexError:
            return False
        return True

    def _fill(self) -> None:
        while len(self._held) < self._count:
            try:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return


SPARE: Final = SpareDescriptors()
"""Those of this process; it holds none before `hold`."""
