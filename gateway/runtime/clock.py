"""The clock and the event loop: asyncio, on uvloop where it is installed."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from typing import Final, final
from weakref import WeakSet

from domain.ports import Timer

ROUNDS_MAX: Final = 32
"""Passes over the queue of `call_soon` in one turn, before the loop polls its sockets again."""


def new_loop() -> asyncio.AbstractEventLoop:
    """A uvloop loop if it is installed, else the standard one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@final
class LoopClock:
    """The `Clock` port over an event loop.

    `call_soon` keeps a queue of its own and empties it before the loop polls again, so that answers of a commit are written in
    the turn of the commit, without polling the sockets in between.

    _timers   timers of `call_at` that are still referenced
    _ended    True: nothing is called any more
    """

    __slots__ = ("_context", "_ended", "_loop", "_queue", "_timers", "monotonic_ns")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: list[Callable[[], None]] = []
        self._context = contextvars.copy_context()
        self._timers: WeakSet[asyncio.TimerHandle] = WeakSet()
        self._ended = False
        self.monotonic_ns = time.monotonic_ns

    def wall_ms(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` at `when_ns`, rounded up to the loop's resolution of one millisecond.

        uvloop counts from the begin of its current millisecond: in a busy loop it calls up to one millisecond early. Callers to
        whom that matters compare the time, and call again.
        """
        delay_ms = -((time.monotonic_ns() - when_ns) // 1_000_000)
        if delay_ms <= 0:
            # In the next turn, as most calls of this method: none of them is worth a place among the timers.
            return self._loop.call_soon(self._unless_ended, callback, context=self._context)
        timer = self._loop.call_later(delay_ms / 1000, callback, context=self._context)
        if self._ended:
            timer.cancel()
        else:
            self._timers.add(timer)
        return timer

    def _unless_ended(self, callback: Callable[[], None]) -> None:
        if not self._ended:
            callback()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` in this turn, after the callbacks that are queued already."""
        if self._ended:
            return
        if not self._queue:
            self._loop.call_soon(self._drain, context=self._context)
        self._queue.append(callback)

    def end(self) -> None:
        """Call nothing any more, and drop all timers: the parts that this clock has driven have ended.

        Another node may follow in the same loop. The parts of the one before would be kept, and kept at work, by their timers.
        """
        self._ended = True
        self._queue.clear()
        for timer in list(self._timers):
            timer.cancel()
        self._timers.clear()

    def _drain(self) -> None:
        for _ in range(ROUNDS_MAX):
            if not self._queue:
                return
            rest = iter(self._queue)
            self._queue = [_nothing]
            try:
                for callback in rest:
                    callback()
            except BaseException:  # the remaining callbacks run in the next turn
                self._queue = [*rest, *self._queue[1:]]
                self._loop.call_soon(self._drain, context=self._context)
                raise
            del self._queue[0]
        if self._queue:
            self._loop.call_soon(self._drain, context=self._context)


def _nothing() -> None:
    """The first item of the queue while it is emptied, so that `call_soon` does not schedule `_drain` again."""
