"""Lag of consumer groups, read from the store in slices."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock, Timer
from domain.store.outlook import GroupLag, LagWalk, Outlook

ROWS_MAX: Final = 1_000
"""Pairs of a group and a topic that have a row of their own."""
SLICE_NS: Final = 20 * MILLISECOND_NS
WALK_NS: Final = 5 * SECOND_NS
"""Time that a walk over all positions should take; with few of them it ends earlier."""
PERIOD_NS: Final = 10 * SECOND_NS
"""Time between the begins of two walks, unless the first takes longer."""
COST_MIN: Final = 256
COST_MAX: Final = 16_384
"""Positions read in one turn of the loop, the most of them only while the walk is late: four milliseconds."""


class LagRow(NamedTuple):
    """messages: that the group has not settled in the topic, whether leased or not; seconds: age of the oldest."""

    group: str
    topic: str
    messages: int
    seconds: float


@final
class Lags:
    """Lag by (group, topic), over the queues where the group has a position. A message settled above the position has no lag.

    rows        the ROWS_MAX with most messages, as of the end of the last walk
    others      all others together: their messages, and the age of the oldest; None when there are none
    walked_ns   monotonic, the middle of the last walk, or when the oldest row was read; 0: no walk has ended
    _cost       of the next slice
    """

    def __init__(self, outlook: Outlook, clock: Clock) -> None:
        self._outlook = outlook
        self._clock = clock
        self._began_ns = 0
        self._cost = COST_MIN
        self._timer: Timer | None = None
        self.rows: list[LagRow] = []
        self.others: LagRow | None = None
        self.walked_ns = 0

    def start(self) -> None:
        """Walk for ever."""
        self._began_ns = self._clock.monotonic_ns()
        self._cost = COST_MIN
        self._step(self._outlook.lags(ROWS_MAX))

    def stop(self) -> None:
        """Walk no more."""
        if self._timer is not None:
            self._timer.cancel()

    def age_s(self) -> float:
        """Age of `rows` in seconds; -1 when there are none yet."""
        return (self._clock.monotonic_ns() - self.walked_ns) / SECOND_NS if self.walked_ns else -1.0

    def _step(self, walk: LagWalk) -> None:
        over = walk.step(self._cost)
        now = self._clock.monotonic_ns()
        if over:
            self._finish(walk, now)
            self._timer = self._clock.call_at(max(now + SLICE_NS, self._began_ns + PERIOD_NS), self.start)
            return
        # Positions that have not changed cost almost nothing, so nobody knows what is still to come: slices grow while late.
        is_late = walk.passed * WALK_NS < walk.total * (now - self._began_ns + SLICE_NS)
        self._cost = min(COST_MAX, self._cost * 2) if is_late else max(COST_MIN, self._cost // 2)
        self._timer = self._clock.call_at(now + SLICE_NS, lambda: self._step(walk))

    def _finish(self, walk: LagWalk, now: int) -> None:
        wall_ms = self._clock.wall_ms()
        rows, others = walk.result()
        self.rows = [_row(row, wall_ms) for row in rows]
        self.others = None if others is None else _row(others, wall_ms)
        middle_ns = (self._began_ns + now) // 2
        self.walked_ns = min(middle_ns, walk.oldest_ns or middle_ns)


def _row(lag: GroupLag, wall_ms: int) -> LagRow:
    return LagRow(lag.group, lag.topic, lag.messages, max(0.0, (wall_ms - lag.oldest_ms) / 1000) if lag.oldest_ms else 0.0)
