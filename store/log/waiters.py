"""Callers that wait until the log is durable up to a position, without an append of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from store.events import StoreEvents


@final
class SyncWaiters:
    """Callbacks by the log position that they wait for."""

    __slots__ = ("_events", "_waiting")

    def __init__(self, events: StoreEvents) -> None:
        self._events = events
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def add(self, position: int, done: Callable[[], None]) -> None:
        """Call `done` once the log is durable up to `position`."""
        self._waiting.append((position, done))

    def synced(self, position: int) -> bool:
        """Call the callbacks up to `position`, up to which the log is durable. True when others still wait."""
        ready = [done for wanted, done in self._waiting if wanted <= position]
        self._waiting = [waiter for waiter in self._waiting if waiter[0] > position]
        for done in ready:
            self._events.run("work that waits for a sync", done)
        return bool(self._waiting)

    def clear(self) -> None:
        """Forget all callbacks: the log is broken, and nothing more becomes durable."""
        self._waiting.clear()
