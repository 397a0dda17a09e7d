"""The end of lite topics: those that nobody has sent to for as long as their topic says are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from domain import limits
from domain.errors import Failure
from domain.lite import LiteQueues
from domain.ports import Clock
from domain.store_ports import Metadata
from domain.topic import Topic
from gateway.usecase.lite import configuration

SWEEP_NS: Final = 120 * limits.SECOND_NS
IDLE_MS_MIN: Final = 15 * 60 * 1000
"""No lite topic ends earlier, whatever its topic says (BrokerConfig.minLiteTTl)."""
SLICE: Final = 256
SLICE_NS: Final = 5 * limits.MILLISECOND_NS


class LiteLifecycle:
    """A sweep every two minutes, in slices. A lite topic that is sent to again begins anew; who has subscribed to it stays."""

    def __init__(self, queues: LiteQueues, metadata: Metadata, clock: Clock) -> None:
        self._queues = queues
        self._metadata = metadata
        self._clock = clock
        self.ended = 0
        clock.call_at(clock.monotonic_ns() + SWEEP_NS, self._sweep)

    def _sweep(self) -> None:
        topics = [each for each in self._metadata.topics() if each.type == "LITE" and configuration.expiration_ms(each)]
        self._slice(iter([(topic, self._queues.names(topic.name)) for topic in topics]), None)

    def _slice(self, topics: Iterator[tuple[Topic, Iterator[str]]], current: tuple[Topic, Iterator[str]] | None) -> None:
        """Look at some lite topics of the current topic, or go on to the next one."""
        current = current or next(topics, None)
        if current is None:
            self._clock.call_at(self._clock.monotonic_ns() + SWEEP_NS, self._sweep)
            return
        topic, names = current
        some = list(islice(names, SLICE))
        over = [name for name in some if self._is_over(topic, name)]
        if over:
            groups = [group.name for group in self._metadata.groups()]

            def dropped(result: None | Failure) -> None:
                if result is None:
                    self.ended += len(over)

            self._queues.drop(topic.name, over, groups, dropped)
        following = current if len(some) == SLICE else None
        self._clock.call_at(self._clock.monotonic_ns() + SLICE_NS, lambda: self._slice(topics, following))

    def _is_over(self, topic: Topic, name: str) -> bool:
        """True when the newest message is too old, or gone already."""
        idle_ms = self._clock.wall_ms() - self._queues.newest_ms(topic.name, name)
        return idle_ms > max(configuration.expiration_ms(topic), IDLE_MS_MIN)
