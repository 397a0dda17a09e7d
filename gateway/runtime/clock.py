"""Time and the loop: asyncio, on uvloop where there is one."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from typing import Final, final

from domain.ports import Timer

ROUNDS_MAX: Final = 32
"""How often one turn goes round before the loop gets to look at its sockets again."""


def new_loop() -> asyncio.AbstractEventLoop:
    """A uvloop when it is installed, else the standard one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@final
class LoopClock:
    """The `Clock` port over an event loop.

    `call_soon` keeps a queue of its own and empties it before the loop polls again: what a commit answers is written in
    the turn in which it was committed, without a look at the sockets in between.
    """

    __slots__ = ("_context", "_loop", "_queue", "monotonic_ns")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: list[Callable[[], None]] = []
        self._context = contextvars.copy_context()
        self.monotonic_ns = time.monotonic_ns

    def wall_ms(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Timer:
        """Never early: rounded up to the millisecond, which is the loop's grain."""
        delay_ms = max(0, -((time.monotonic_ns() - when_ns) // 1_000_000))
        return self._loop.call_later(delay_ms / 1000, callback, context=self._context)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` in this turn, after what was asked for before it."""
        if not self._queue:
            self._loop.call_soon(self._drain, context=self._context)
        self._queue.append(callback)

    def _drain(self) -> None:
        for _ in range(ROUNDS_MAX):
            if not self._queue:
                return
            rest = iter(self._queue)
            self._queue = [_nothing]
            try:
                for callback in rest:
                    callback()
            except BaseException:  # the others are not to suffer for one: they go on in the next turn
                self._queue = [*rest, *self._queue[1:]]
                self._loop.call_soon(self._drain, context=self._context)
                raise
            del self._queue[0]
        if self._queue:
            self._loop.call_soon(self._drain, context=self._context)


def _nothing() -> None:
    """Holds the first place of the queue while it is being emptied, so that nobody asks the loop again."""
