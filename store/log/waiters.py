"""Waiters for the durability of the log up to a position, without an append."""

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
        """Call the callbacks up to the durable `position`. True when others still wait."""
        ready = [done for wanted, done in self._waiting if wanted <= position]
        self._waiting = [waiter for waiter in self._waiting if waiter[0] > position]
        for done in ready:
            self._events.run("work that waits for a sync", done)
        return bool(self._waiting)

    def clear(self) -> None:
        """Drop all callbacks: the log is broken, and no more bytes become durable."""
        self._waiting.clear()
