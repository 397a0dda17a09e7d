"""Lag of consumer groups, read from the store in slices."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from domain.address import is_system_topic
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock, Timer
from domain.store_ports import Metadata, Outlook

SLICE_NS: Final = 20 * MILLISECOND_NS
WALK_NS: Final = 10 * SECOND_NS
"""Time that a walk over all positions should take; with few of them it ends earlier, and the next begins after WALK_NS."""
PLACES_MIN: Final = 64
PLACES_MAX: Final = 2_048
"""Positions read in one turn of the loop: a millisecond or two."""


class GroupLag(NamedTuple):
    """messages: that the group has not settled in the topic, whether leased or not; seconds: age of the oldest."""

    group: str
    topic: str
    messages: int
    seconds: float


@final
class Lags:
    """Lag by (group, topic), over the queues where the group has a position. A message settled above the position has no lag.

    rows        as of the end of the last walk
    walked_ns   monotonic, the middle of the last walk; 0: none has ended
    _sums       (group, topic) -> [messages, store ms of the oldest] of the walk under way
    _after      the place that the walk has reached; None: at its begin
    """

    def __init__(self, outlook: Outlook, metadata: Metadata, clock: Clock) -> None:
        self._outlook = outlook
        self._metadata = metadata
        self._clock = clock
        self._sums: dict[tuple[str, str], list[int]] = {}
        self._after: tuple[str, str, int] | None = None
        self._began_ns = 0
        self._seen = 0
        self._last = 0
        self._timer: Timer | None = None
        self.rows: list[GroupLag] = []
        self.walked_ns = 0

    def start(self) -> None:
        """Walk for ever."""
        self._began_ns = self._clock.monotonic_ns()
        self._step()

    def stop(self) -> None:
        """Walk no more."""
        if self._timer is not None:
            self._timer.cancel()

    def age_s(self) -> float:
        """Age of `rows` in seconds; -1 when there are none yet."""
        return (self._clock.monotonic_ns() - self.walked_ns) / SECOND_NS if self.walked_ns else -1.0

    def _step(self) -> None:
        slices = WALK_NS // SLICE_NS
        places = self._outlook.places_after(self._after, min(PLACES_MAX, max(PLACES_MIN, self._last // slices)))
        for group, topic, queue_id in places:
            self._add(group, topic, queue_id)
        self._seen += len(places)
        now = self._clock.monotonic_ns()
        if places:
            self._after = places[-1]
            self._timer = self._clock.call_at(now + SLICE_NS, self._step)
            return
        self._finish(now)
        self._timer = self._clock.call_at(max(now + SLICE_NS, self._began_ns + WALK_NS), self.start)

    def _add(self, group: str, topic: str, queue_id: int) -> None:
        if is_system_topic(topic) or self._metadata.topic(topic) is None or self._metadata.group(group) is None:
            return
        messages, oldest_ms = self._outlook.lag(group, topic, queue_id)
        found = self._sums.get((group, topic))
        if found is None:
            self._sums[group, topic] = [messages, oldest_ms]
            return
        found[0] += messages
        if oldest_ms and (not found[1] or oldest_ms < found[1]):
            found[1] = oldest_ms

    def _finish(self, now: int) -> None:
        wall_ms = self._clock.wall_ms()
        self.rows = [
            GroupLag(group, topic, messages, max(0.0, (wall_ms - oldest_ms) / 1000) if messages and oldest_ms else 0.0)
            for (group, topic), (messages, oldest_ms) in self._sums.items()
        ]
        self.walked_ns = (self._began_ns + now) // 2
        self._sums, self._after = {}, None
        self._last, self._seen = self._seen, 0
