"""Deletion of idle lite topics: those to which nobody has sent for the expiration of their parent topic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from domain import limits
from domain.errors import Failure
from domain.ports import Clock
from domain.store.store_ports import Metadata
from domain.topic.lite import LiteQueues
from domain.topic.topic import Topic
from gateway.usecase.lite import configuration

SWEEP_NS: Final = 120 * limits.SECOND_NS
IDLE_MS_MIN: Final = 15 * 60 * 1000
"""The least expiration, whatever the parent topic says (BrokerConfig.minLiteTTl)."""
SLICE: Final = 256
"""Lite topics that one turn of the loop looks at."""
SLICE_NS: Final = 5 * limits.MILLISECOND_NS


class LiteLifecycle:
    """Sweeps all lite topics every two minutes, in slices.

    Subscriptions of a deleted lite topic stay: a message that is sent to it makes it again.

    ended   lite topics deleted so far
    """

    def __init__(self, queues: LiteQueues, metadata: Metadata, clock: Clock) -> None:
        self._queues = queues
        self._metadata = metadata
        self._clock = clock
        self.ended = 0
        clock.call_at(clock.monotonic_ns() + SWEEP_NS, self._sweep)

    def _sweep(self) -> None:
        topics = [each for each in self._metadata.lite_topics() if configuration.expiration_ms(each)]
        self._slice(iter([(topic, self._queues.names(topic.name)) for topic in topics]), None)

    def _slice(self, topics: Iterator[tuple[Topic, Iterator[str]]], current: tuple[Topic, Iterator[str]] | None) -> None:
        """Look at SLICE lite topics of the current parent topic, then go on with it or with the next one."""
        current = current or next(topics, None)
        if current is None:
            self._clock.call_at(self._clock.monotonic_ns() + SWEEP_NS, self._sweep)
            return
        topic, names = current
        some = list(islice(names, SLICE))
        idle = [name for name in some if self._is_idle(topic, name)]
        if idle:
            groups = [group.name for group in self._metadata.groups()]

            def dropped(result: None | Failure) -> None:
                if result is None:
                    self.ended += len(idle)

            self._queues.drop(topic.name, idle, groups, dropped)
        following = current if len(some) == SLICE else None
        self._clock.call_at(self._clock.monotonic_ns() + SLICE_NS, lambda: self._slice(topics, following))

    def _is_idle(self, topic: Topic, name: str) -> bool:
        """True when the newest message is older than the expiration, or no longer stored."""
        idle_ms = self._clock.wall_ms() - self._queues.newest_ms(topic.name, name)
        return idle_ms > max(configuration.expiration_ms(topic), IDLE_MS_MIN)
