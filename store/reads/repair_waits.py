"""Reads that have met damage of the log wait for its repair from another replica, for a bounded time.

met damage --> waits --a part is whole again--> tried again
                     --WAIT_NS, or no replica gives the part--> STORE_UNAVAILABLE: ask again
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from store.events import StoreEvents
from store.log.damage import LogDamageError, LogReadError

WAIT_NS: Final = 3_000 * MILLISECOND_NS
"""Longest time for which a read waits: damage that a reader meets is looked for within a second, and repaired soon after."""
WAITING_MAX: Final = 1_024
"""Reads that wait at a time; further ones fail at once."""
REST_NS: Final = 5_000 * MILLISECOND_NS
"""Time for which nothing waits after no replica could give a part."""
TURN_READS: Final = 8
"""Reads that are tried again in one turn of the loop."""


@dataclass(frozen=True, slots=True)
class DamageFailure(Failure):
    """The failure of a read that has met damage of the log: a repair would help."""


def unreadable(error: OSError | StoreError, text: str) -> Failure:
    """The failure INTERNAL of a read that has met `error`."""
    if isinstance(error, LogDamageError | LogReadError):
        return DamageFailure(ErrorCode.INTERNAL, text)
    return Failure(ErrorCode.INTERNAL, text)


class _Read(NamedTuple):
    """A read that waits.

    until_ns   deadline, monotonic
    """

    until_ns: int
    text: str
    done: Callable[[Any], None]
    again: Callable[[], None]


@final
class RepairWaits:
    """The reads of one log that wait.

    active    True: other replicas repair this log. Else nothing waits
    refused   reads that could not wait, because too many did
    _again    reads that are about to be repeated
    _until_ns deadline of the read that is being repeated; 0: none is
    """

    def __init__(self, clock: Clock, events: StoreEvents) -> None:
        self.active = False
        self.waited = self.in_vain = self.refused = 0
        self._clock = clock
        self._events = events
        self._reads: list[_Read] = []
        self._again: deque[_Read] = deque()
        self._until_ns = 0
        self._rests_ns = 0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """Number of waiting reads."""
        return len(self._reads) + len(self._again)

    def hold(self, failure: Failure, done: Callable[[Any], None], again: Callable[[], None]) -> bool:
        """True: the read that ended in `failure` waits, and `again` or `done` is called later. False: it does not wait."""
        if not self.active or not isinstance(failure, DamageFailure):
            return False
        now = self._clock.monotonic_ns()
        if now < self._rests_ns:
            return False
        if len(self) >= WAITING_MAX:
            self.refused += 1
            return False
        until = self._until_ns
        if not until:
            self.waited += 1
            until = now + WAIT_NS
        self._reads.append(_Read(until, failure.text, done, again))
        if self._timer is None:
            self._timer = self._clock.call_at(until, self._poll)
        return True

    def mended(self) -> None:
        """A part is whole again: try the reads again, a few in each turn."""
        self._rests_ns = 0
        idle = not self._again
        self._again += self._reads
        self._reads = []
        if idle and self._again:
            self._clock.call_soon(self._try)

    def given_up(self) -> None:
        """No replica gives a part, for now."""
        self._rests_ns = self._clock.monotonic_ns() + REST_NS
        reads, self._reads = self._reads, []
        for each in reads:
            self._fail(each)

    def close(self) -> None:
        """Drop all waiting reads without an answer: the log is closed."""
        self.active = False
        self._reads.clear()
        self._again.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _try(self) -> None:
        for _ in range(min(TURN_READS, len(self._again))):
            read = self._again.popleft()
            self._until_ns = read.until_ns
            try:
                self._events.run("a read that waited for a repair", read.again)
            finally:
                self._until_ns = 0
        if self._again:
            self._clock.call_soon(self._try)

    def _poll(self) -> None:
        self._timer = None
        now = self._clock.monotonic_ns()
        over = [each for each in self._reads if each.until_ns <= now]
        self._reads = [each for each in self._reads if each.until_ns > now]
        for each in over:
            self._fail(each)
        if self._reads:
            self._timer = self._clock.call_at(min(each.until_ns for each in self._reads), self._poll)

    def _fail(self, read: _Read) -> None:
        self.in_vain += 1
        text = f"{read.text}; it is to be repaired from another replica: ask again"
        self._events.run("the answer of a read that waited for a repair", read.done, Failure(ErrorCode.STORE_UNAVAILABLE, text))
