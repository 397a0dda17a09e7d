"""Searches that take longer than one call of the store: each goes on in later turns of the loop, and all share one turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock

TURN_NS: Final = 4 * MILLISECOND_NS
"""Time of one turn after which the other searches wait for the next one."""


@final
class SearchTurns:
    """Parts of searches, in the order in which they were added. A part adds the next one of its search, if there is one."""

    __slots__ = ("_asked", "_clock", "_parts")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked = False
        self._parts: deque[Callable[[], None]] = deque()

    def add(self, part: Callable[[], None]) -> None:
        """Run `part` in a later turn."""
        self._parts.append(part)
        self._ask()

    def _run(self) -> None:
        """Run the parts that there are, for TURN_NS; one at least."""
        began = self._clock.monotonic_ns()
        self._asked = False
        for _ in range(len(self._parts)):
            part = self._parts.popleft()
            if self._parts:
                self._ask()
            part()
            if self._clock.monotonic_ns() - began >= TURN_NS:
                return

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._clock.call_at(self._clock.monotonic_ns(), self._run)
