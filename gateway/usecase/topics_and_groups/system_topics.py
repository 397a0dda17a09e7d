"""The topics that clients and tools of RocketMQ expect to find on every node."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, final

from domain import address
from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.store.store_ports import Metadata
from domain.topic.topic import PERM_READ_WRITE, Topic

PERM_INHERIT: Final = 1
"""Bit of a topic's permission: new topics inherit from it (RocketMQ: PermName.PERM_INHERIT)."""
AGAIN_NS: Final = 100 * MILLISECOND_NS
"""Pause before a topic that the store has refused is made again."""


@final
class SystemTopics:
    """Makes the topics that are missing, each again until the store has it.

    A store takes nothing for a while when its disk is full, or when it leads a store group that lacks members.
    """

    def __init__(self, metadata: Metadata, clock: Clock, cluster: str, broker: str, created_ms: int) -> None:
        self._metadata = metadata
        self._clock = clock
        self._missing = {
            topic.name: replace(topic, created_ms=created_ms)
            for topic in system_topics(cluster, broker)
            if metadata.topic(topic.name) is None
        }
        for topic in list(self._missing.values()):
            self._make(topic)

    @property
    def ready(self) -> bool:
        """True once all of them are stored."""
        return not self._missing

    def _make(self, topic: Topic) -> None:
        def made(failure: Failure | None) -> None:
            if failure is None or self._metadata.topic(topic.name) is not None:
                self._missing.pop(topic.name, None)
            else:
                self._clock.call_at(self._clock.monotonic_ns() + AGAIN_NS, lambda: self._make(topic))

        self._metadata.put_topic(topic, made)


def system_topics(cluster: str, broker: str) -> list[Topic]:
    """The template of new topics, those named after cluster and broker, and those of RocketMQ's tools."""
    return [
        Topic(address.TEMPLATE_TOPIC, 8, 8, PERM_READ_WRITE | PERM_INHERIT),
        Topic(cluster, 16, 16, PERM_READ_WRITE | PERM_INHERIT),
        Topic(broker, 1, 1, PERM_READ_WRITE | PERM_INHERIT),
        Topic(f"{cluster}_REPLY_TOPIC", 1, 1, PERM_READ_WRITE),
        Topic("SELF_TEST_TOPIC", 1, 1, PERM_READ_WRITE),
        Topic("BenchmarkTest", 1024, 1024, PERM_READ_WRITE),
        Topic("OFFSET_MOVED_EVENT", 1, 1, PERM_READ_WRITE),
        Topic("RMQ_SYS_TRACE_TOPIC", 1, 1, PERM_READ_WRITE),
        Topic(address.UNDECIDED_TOPIC, 1, 1, PERM_READ_WRITE),
    ]
