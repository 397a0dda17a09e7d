"""The time by which a store dates and keeps messages: the wall clock, unless it has jumped far ahead.

See docs/decisions/0064-slow-members-and-clocks.md.
"""

from __future__ import annotations

from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.store.store_event import StoreEventKind
from store.events import StoreEvents

JUMP_MS: Final = 30 * 60 * 1_000
"""A step of the wall clock ahead, against the monotonic clock, that is not followed. Smaller steps, and all steps back, are."""


@final
class StoreTime:
    """Epoch milliseconds. After a jump of JUMP_MS or more they go on by the monotonic clock, until the wall clock is back.

    limit_ms   wall clock below which it has not jumped since the last `now_ms`
    ahead_ms   by how much the wall clock is ahead and not followed; 0: it is followed
    """

    __slots__ = ("_before_ms", "_clock", "_events", "ahead_ms", "limit_ms")

    def __init__(self, clock: Clock, events: StoreEvents) -> None:
        self._clock = clock
        self._events = events
        wall_ms = clock.wall_ms()
        self._before_ms = wall_ms - clock.monotonic_ns() // MILLISECOND_NS
        self.limit_ms = wall_ms + JUMP_MS
        self.ahead_ms = 0

    def now_ms(self) -> int:
        """The time now. The first call after a jump reports it."""
        wall_ms = self._clock.wall_ms()
        steady_ms = self._before_ms + self._clock.monotonic_ns() // MILLISECOND_NS
        ahead_ms = wall_ms - steady_ms
        if ahead_ms < JUMP_MS:
            self._before_ms += ahead_ms
            self.limit_ms = wall_ms + JUMP_MS
            self.ahead_ms = 0
            return wall_ms
        if not self.ahead_ms:
            self._events.notify(
                StoreEventKind.CLOCK, "",
                f"the wall clock has jumped ahead by {ahead_ms // 1_000} s: messages are dated and deleted by the time before",
                "set the clock; if it is right now, start this node again",
            )  # fmt: skip
        self.ahead_ms = ahead_ms
        return steady_ms
