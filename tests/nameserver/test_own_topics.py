"""The node's topics as it registers them: versions, and what has changed since one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from domain.address import host_bytes
from domain.nameserver.route import DataVersion, TopicQueues
from domain.store.message_store import MessageStore
from domain.store.store_event import unheard
from domain.topic.topic import Topic
from nameserver import own_topics
from nameserver.own_topics import OwnTopics
from store.engine import open_store
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk


@dataclass
class Own:
    """Topics over a store in memory, and the broker's permission."""

    clock: VirtualClock
    store: MessageStore
    permission: int = 6

    def __post_init__(self) -> None:
        self.topics = OwnTopics("b-a", self.store.metadata, lambda: self.permission, 99)

    def put(self, name: str, queues: int = 8, perm: int = 6) -> None:
        self._done(lambda done: self.store.metadata.put_topic(Topic(name, queues, queues, perm), done))

    def delete(self, name: str) -> None:
        self._done(lambda done: self.store.metadata.delete_topic(name, done))

    def _done(self, call: Callable[[Callable[[object], None]], None]) -> None:
        told: list[object] = []
        call(told.append)
        self.clock.run_for(50)
        assert told == [None]


@pytest.fixture
def own() -> Own:
    clock = VirtualClock()
    settings = StoreSettings(broker="b-a", store_host=host_bytes("127.0.0.1", 1))
    return Own(clock, open_store(MemoryDisk(clock), clock, settings, unheard))


def test_the_state_of_a_version_is_the_epoch_of_the_leader(own: Own) -> None:
    led = OwnTopics("b-a", own.store.metadata, lambda: 6, 99, epoch=7)
    assert led.version == DataVersion(7, 99, 1)


def test_each_change_makes_a_version_and_is_known(own: Own) -> None:
    calls: list[int] = []
    own.store.metadata.follow_topics(lambda _topic: calls.append(own.topics.version.counter))
    first = own.topics.version
    assert (first.state, first.timestamp_ms) == (0, 99)
    own.put("A")
    own.put("B")
    own.put("A", 4)
    own.delete("B")
    now = own.topics.version
    assert now == DataVersion(0, 99, first.counter + 4)
    assert len(calls) == 4
    assert sorted(own.topics.changed_since(first.counter) or ()) == ["A", "B"]
    assert own.topics.changed_since(now.counter - 2) == ["B", "A"]
    assert own.topics.changed_since(now.counter) == []
    assert own.topics.changed_since(now.counter + 1) is None
    assert own.topics.changed_since(first.counter - 1) is None
    assert own.topics.topic("A") == TopicQueues("b-a", 4, 4, 6)
    assert own.topics.topic("B") is None


def test_who_is_too_far_behind_gets_everything(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topics, "CHANGES_MAX", 3)
    first = own.topics.version.counter
    for name in ("A", "B", "C"):
        own.put(name)
    assert sorted(own.topics.changed_since(first) or ()) == ["A", "B", "C"]
    own.put("D")
    assert own.topics.changed_since(first) is None
    assert sorted(own.topics.changed_since(first + 1) or ()) == ["B", "C", "D"]


def test_a_permission_of_the_broker_changes_all_topics(own: Own) -> None:
    own.put("A")
    own.put("T", perm=7)
    before = own.topics.version
    own.permission = 4
    assert own.topics.version.counter == before.counter + 1
    assert own.topics.changed_since(before.counter) is None
    assert own.topics.changed_since(own.topics.version.counter) == []
    assert [(name, queues.perm) for name, queues in own.topics.after("", 10)] == [("A", 4), ("T", 4)]


def test_a_walk_goes_by_name(own: Own) -> None:
    for name in ("C", "A", "B"):
        own.put(name)
    assert [name for name, _ in own.topics.after("", 2)] == ["A", "B"]
    assert [name for name, _ in own.topics.after("B", 2)] == ["C"]
