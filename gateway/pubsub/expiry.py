"""The expiry of topics: each is deleted when the instant that its properties name has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, final

from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from domain.topic.data_topic import DataTopic
from gateway.usecase.waiting.long_questions import STEP_ITEMS

EXPIRED_PER_TURN: Final = 32
"""Topics that are deleted at once since they have expired."""
AGAIN_MS: Final = 1_000
"""When the deletion of an expired topic is tried again that the store has refused."""
TIMER_MS_MAX: Final = 86_400_000
"""The timer looks at the clock again at least once a day."""


class StoredTopic(NamedTuple):
    """A topic, and its record as it is stored: one of a later version has members that this version passes over."""

    topic: DataTopic
    record: bytes


@final
class TopicExpiry:
    """Deletes topics that have expired.

    _known      key -> a topic that is stored
    _ends       heap of (epoch ms, key); a topic that was changed or deleted leaves an end behind that means nothing
    _timer_ms   epoch ms for which it is set
    """

    def __init__(
        self,
        known: Mapping[bytes, StoredTopic],
        clock: Clock,
        delete: Callable[[DataTopic, Callable[[None | Failure], None]], None],
    ) -> None:
        self._known = known
        self._clock = clock
        self._delete = delete
        self._ends: list[tuple[int, bytes]] = []
        self._timer: Timer | None = None
        self._timer_ms = 0

    def follow(self, key: bytes, topic: DataTopic) -> None:
        """A topic was made or changed; it is in `known` already."""
        end_ms = topic.given.expires_ms
        if end_ms is None:
            return
        if len(self._ends) > 2 * len(self._known) + STEP_ITEMS:  # changes have left old ends behind
            self._ends = [
                (each.topic.given.expires_ms, at) for at, each in self._known.items() if each.topic.given.expires_ms is not None
            ]
            heapify(self._ends)
        else:
            heappush(self._ends, (end_ms, key))
        self._arm()

    def _arm(self, least_ms: int = 0) -> None:
        """Set the timer to the earliest end, at least `least_ms` from now."""
        if not self._ends:
            return
        end_ms = self._ends[0][0]
        if self._timer is not None:
            if end_ms >= self._timer_ms:
                return
            self._timer.cancel()
        self._timer_ms = end_ms
        wait_ms = min(max(least_ms, end_ms - self._clock.wall_ms()), TIMER_MS_MAX)
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait_ms * MILLISECOND_NS, self._expire)

    def _expire(self) -> None:
        """Delete expired topics, EXPIRED_PER_TURN at once. A deletion that the store refuses is tried again after AGAIN_MS."""
        self._timer = None
        now = self._clock.wall_ms()
        over: list[tuple[bytes, DataTopic]] = []
        while self._ends and self._ends[0][0] <= now and len(over) < EXPIRED_PER_TURN:
            key = heappop(self._ends)[1]
            known = self._known.get(key)
            if known is not None and known.topic.is_over(now):
                over.append((key, known.topic))
        for key, topic in over:
            self._delete(topic, partial(self._deleted, key, topic.given.expires_ms))
        self._arm()

    def _deleted(self, key: bytes, end_ms: int | None, result: None | Failure) -> None:
        if isinstance(result, Failure) and key in self._known and end_ms is not None:
            heappush(self._ends, (end_ms, key))
            self._arm(AGAIN_MS)
