"""Calls that wait while the store opens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

from store.events import StoreEvents
from store.reads.repair_waits import RepairWaits


@final
class StartupQueue:
    """Calls that may only run once everything that opening found in the log is durable. They run in the order of the calls.

    holding   calls have to wait: `add` them
    """

    def __init__(self, events: StoreEvents, repairs: RepairWaits) -> None:
        self._events = events
        self.repairs = repairs
        self.holding = True
        self._calls: list[Callable[[], None]] = []

    def add(self, call: Callable[..., None], *arguments: Any) -> None:
        """Run `call` with `arguments` at `release`."""
        self._calls.append(partial(call, *arguments))

    def release(self) -> None:
        """The log is durable, or cannot be written any more: run the calls. No effect the second time."""
        self.holding = False
        calls, self._calls = self._calls, []
        for call in calls:
            self._events.run("a call that waited for recovery", call)
