"""Health figures of a replica, which reveal a slow disk, network path or process, and the error of its clock."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

UNMEASURED: Final = -1
"""In place of a figure of which there was nothing to measure."""


class ReplicaFigures(NamedTuple):
    """Figures of one replica since its last heartbeat, in microseconds; UNMEASURED where nothing happened.

    sync_us   mean time of a sync of the log; when none has ended, the time of the sync in progress so far
    ack_us    of a leader: mean time from a write to the answer of the fastest follower; of a follower: UNMEASURED
    turn_us   longest turn of the event loop
    errors    reads that the disk has failed, appends that timed out, and connections to other replicas that broke
    wall_ms   its wall clock at the time of the report, epoch milliseconds
    skew_ms   permitted difference between clocks, its setting `clock_skew_max_ms`
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
    """Fitness of a replica to lead. One with a higher value is elected only when none with a lower value can be."""

    FIT = 0
    SLOW = 1
    CLOCK_OFF = 2


class Standing(NamedTuple):
    """Judgement of a controller on a replica.

    why       the figures that are the reason, for people; "" for FIT
    """

    fitness: Fitness = Fitness.FIT
    why: str = ""


FIT: Final = Standing()
