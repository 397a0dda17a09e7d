"""Those who wait until what has been written is durable, without having written anything themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import final


@final
class SyncWaiters:
    """Callbacks by log position."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def add(self, position: int, done: Callable[[], None]) -> None:
        """Call `done` once the log is durable up to `position`."""
        self._waiting.append((position, done))

    def synced(self, position: int) -> bool:
        """The log is durable up to `position`: tell those who waited for that. True when others still wait."""
        ready = [done for wanted, done in self._waiting if wanted <= position]
        self._waiting = [waiter for waiter in self._waiting if waiter[0] > position]
        for done in ready:
            done()
        return bool(self._waiting)

    def clear(self) -> None:
        """Nothing will become durable any more."""
        self._waiting.clear()
