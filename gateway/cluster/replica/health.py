"""Health figures of a replica between two heartbeats, from samples and counters, without work per message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.controller.health import UNMEASURED, ReplicaFigures
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from domain.replication.ports import LogWork
from store.replication.fence import FenceCounts

_MICROSECOND_NS: Final = 1_000
SAMPLE_NS: Final = 50 * MILLISECOND_NS
"""Time between two samples of the event loop: the delay of the timer shows the length of a loop turn."""


@final
class ReplicaHealth:
    """Health figures of one term of a replica.

    errors   disk errors and broken replica connections since the start
    fence    reads that waited for the fence of a leadership, since the start
    """

    def __init__(self, clock: Clock, skew_ms: int) -> None:
        """`skew_ms`: permitted difference between the clocks of replicas."""
        self.newest = ReplicaFigures()
        self.errors = 0
        self.fence = FenceCounts()
        self._clock = clock
        self._skew_ms = skew_ms
        self._before = LogWork()
        self._broken = 0
        self._turn_ns = UNMEASURED
        self._taken_ns = self._due_ns = clock.monotonic_ns()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start sampling the event loop."""
        self._due_ns = self._clock.monotonic_ns() + SAMPLE_NS
        self._timer = self._clock.call_at(self._due_ns, self._sample)

    def stop(self) -> None:
        """Stop sampling."""
        if self._timer is not None:
            self._timer.cancel()

    def broke(self) -> None:
        """Count a broken connection to another replica."""
        self._broken += 1

    def other_log(self) -> None:
        """Reset the baseline: the log was replaced by another object, whose counters start at 0."""
        self._before = LogWork()

    def take(self, work: LogWork, ack_us: int, paths: Sequence[tuple[int, int]] = ()) -> ReplicaFigures:
        """The figures since the last call. `work`: counters of the log; `ack_us`, `paths`: of a leader
        (store.replication.ack_times)."""
        now, before = self._clock.monotonic_ns(), self._before
        syncs = work.syncs - before.syncs
        sync_us = UNMEASURED
        if syncs > 0:
            sync_us = (work.sync_ns - before.sync_ns) // syncs // _MICROSECOND_NS
        elif 0 < work.since_ns <= self._taken_ns:
            sync_us = (now - work.since_ns) // _MICROSECOND_NS
        errors = max(work.errors - before.errors, 0) + self._broken
        turn_us = self._turn_ns if self._turn_ns == UNMEASURED else self._turn_ns // _MICROSECOND_NS
        self._before, self._broken, self._turn_ns, self._taken_ns = work, 0, UNMEASURED, now
        self.errors += errors
        self.newest = ReplicaFigures(sync_us, ack_us, turn_us, errors, self._clock.wall_ms(), self._skew_ms, paths)
        return self.newest

    def _sample(self) -> None:
        self._turn_ns = max(self._turn_ns, self._clock.monotonic_ns() - self._due_ns)
        self.start()
