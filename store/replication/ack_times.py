"""Response times of followers, by samples: one position at a time is watched until a follower has it."""

from __future__ import annotations

from typing import Final, final

from domain.controller.health import UNMEASURED
from domain.ports import Clock

_MICROSECOND_NS: Final = 1_000


@final
class AckTimes:
    """Samples since the last `take_us`. The cost does not depend on the number of messages."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched = False
        self._position = 0
        self._since_ns = 0
        self._taken_ns = clock.monotonic_ns()
        self._sum_ns = self._count = 0

    def written(self, position: int) -> None:
        """Watch `position`, the end of the written log, unless another position is watched."""
        if not self._watched and position > self._position:
            self._watched, self._position, self._since_ns = True, position, self._clock.monotonic_ns()

    def held(self, position: int) -> None:
        """Take a sample if `position`, which a follower has reached, is the watched one or behind it."""
        if self._watched and position >= self._position:
            self._watched = False
            self._sum_ns += self._clock.monotonic_ns() - self._since_ns
            self._count += 1

    def forget(self) -> None:
        """Watch no position, since there are no followers."""
        self._watched = False

    def take_us(self) -> int:
        """Mean time of the samples in microseconds. Without samples: the age of the watched position, if it was already watched
        at the previous call; else UNMEASURED."""
        now = self._clock.monotonic_ns()
        found = UNMEASURED
        if self._count:
            found = self._sum_ns // self._count // _MICROSECOND_NS
        elif self._watched and self._since_ns <= self._taken_ns:
            found = (now - self._since_ns) // _MICROSECOND_NS
        self._taken_ns, self._sum_ns, self._count = now, 0, 0
        return found


@final
class PathTimes:
    """Samples of each follower. `replica`: its id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: dict[int, AckTimes] = {}

    def written(self, position: int) -> None:
        """As AckTimes.written, for each follower."""
        for each in self._of.values():
            each.written(position)

    def held(self, replica: int, position: int) -> None:
        """As AckTimes.held, for one follower."""
        times = self._of.get(replica)
        if times is not None:
            times.held(position)

    def follows(self, replica: int) -> None:
        """Begin the samples of a follower that has connected."""
        self._of[replica] = AckTimes(self._clock)

    def lost(self, replica: int) -> None:
        """Drop the samples of a follower whose connection has ended."""
        self._of.pop(replica, None)

    def take(self) -> tuple[tuple[int, int], ...]:
        """(replica, `AckTimes.take_us`) of each follower measured since the last call."""
        found = [(replica, each.take_us()) for replica, each in sorted(self._of.items())]
        return tuple((replica, micros) for replica, micros in found if micros != UNMEASURED)
