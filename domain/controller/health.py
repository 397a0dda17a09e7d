"""What a replica measures of itself: it tells when a disk, a network path or a process is slow without being dead, and how far
its clock is off."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

UNMEASURED: Final = -1
"""In place of a figure of which there was nothing to measure."""


class ReplicaFigures(NamedTuple):
    """What one replica measured since its last heartbeat, in microseconds; UNMEASURED where nothing happened.

    sync_us   mean time of a sync of the log; when none has ended, how long the one under way takes already
    ack_us    of a leader: mean time from a write to the answer of the fastest follower; of a follower: UNMEASURED
    turn_us   longest turn of the event loop
    errors    reads that the disk has failed, appends that timed out, and connections to other replicas that broke
    wall_ms   its wall clock when it said this, epoch milliseconds
    skew_ms   how far apart clocks may be, by its setting `clock_skew_max_ms`
    paths     of a leader: (replica, mean time from a write to the answer of that follower), one for each that it has measured
    """

    sync_us: int = UNMEASURED
    ack_us: int = UNMEASURED
    turn_us: int = UNMEASURED
    errors: int = 0
    wall_ms: int = UNMEASURED
    skew_ms: int = UNMEASURED
    paths: Sequence[tuple[int, int]] = ()

    @property
    def path_us(self) -> int:
        """The time of the slowest of `paths`; UNMEASURED without one."""
        return max((taken_us for _, taken_us in self.paths), default=UNMEASURED)


class Fitness(IntEnum):
    """Whether a replica should lead. Higher: elected only when nobody with a lower one can be."""

    FIT = 0
    SLOW = 1
    CLOCK_OFF = 2


class Standing(NamedTuple):
    """What a controller thinks of a replica.

    fitness   whether it should lead
    why       the figures that say so, for people; "" for FIT
    """

    fitness: Fitness = Fitness.FIT
    why: str = ""


FIT: Final = Standing()
