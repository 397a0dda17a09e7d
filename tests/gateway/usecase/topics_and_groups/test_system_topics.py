"""Topics that every node has."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from domain.errors import ErrorCode, Failure
from domain.store.store_ports import Metadata
from domain.topic.topic import Topic
from gateway.usecase.topics_and_groups.system_topics import SystemTopics, system_topics
from tests.simulation.kit.clock import VirtualClock

WANTED = {topic.name for topic in system_topics("c", "b")}


class Refusing:
    """`Metadata` that takes no topic until `taken` is set: as of a leader whose group lacks members."""

    def __init__(self) -> None:
        self.taken = False
        self.topics: dict[str, Topic] = {}

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def put_topic(self, topic: Topic, done: Callable[[Failure | None], None]) -> None:
        if self.taken:
            self.topics[topic.name] = topic
        done(None if self.taken else Failure(ErrorCode.STORE_UNAVAILABLE, "the SyncStateSet has 1 of 2 members"))


def test_topics_that_were_refused_are_made_when_the_store_takes_them() -> None:
    metadata, clock = Refusing(), VirtualClock()
    topics = SystemTopics(cast(Metadata, metadata), clock, "c", "b", 7)
    clock.run_for(1_000)
    assert not topics.ready
    metadata.taken = True
    clock.run_for(200)
    assert topics.ready
    assert set(metadata.topics) == WANTED
    assert {topic.created_ms for topic in metadata.topics.values()} == {7}


def test_topics_that_are_there_are_left_as_they_are() -> None:
    metadata, clock = Refusing(), VirtualClock()
    metadata.topics = {name: Topic(name, 3, 3) for name in WANTED}
    assert SystemTopics(cast(Metadata, metadata), clock, "c", "b", 7).ready
