"""The fixture `bench`: the use cases over a store in memory, with short calls for their tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from domain.address import host_bytes
from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.command import Command, CommitOffsets, Receive, Send
from domain.errors import ErrorCode, Failure
from domain.event import Event, Pulled, Received, Refused, Sent
from domain.message import property as properties
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.store.store_event import unheard
from domain.topic.topic import Group, Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.tools.node_policy import PolicyChanging
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.waiting.long_polls import LiveTails
from store.engine import open_store
from store.opening.open_store import OpenStore
from store.settings import StoreSettings
from tests.gateway.usecase.event_recorder import EventRecorder, only
from tests.late_store import LATENESS, reached
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import FixedEntropy


@dataclass
class Bench:
    """A dispatcher over a store in memory.

    instead   carries out commands of visits in its place; None: the dispatcher does
    """

    clock: VirtualClock
    store: OpenStore
    handler: Dispatcher
    instead: Callable[[ClientConnection, Command], None] | None = None

    def ask(self, command: Command, recorder: EventRecorder | None = None, ms: float = 20) -> list[Event]:
        """The events that answer one command within `ms`."""
        recorder = recorder or EventRecorder()
        self.handler.handle(recorder.connection, command)
        self.clock.run_for(ms)
        return recorder.take()

    def send(self, topic: str, *bodies: str, group: str = "") -> Sent:
        """Send messages, all with tag = body's first letter."""
        messages = []
        for body in bodies:
            pairs = [("TAGS", body[0])]
            if group:
                pairs.append(("__SHARDINGKEY", group))
            messages.append(Message(topic, body.encode(), properties.encode(pairs)))
        return only(Sent, self.ask(Send(1, messages)))

    def receive(self, group: str, topic: str, limit: int = 32, invisible_ms: int = 10_000, wait_ms: int = 0) -> Received:
        """The answer to one Receive from the first message on."""
        [event] = self.ask(Receive(1, group, topic, limit, invisible_ms, wait_ms, from_first=True), ms=wait_ms + 20)
        assert isinstance(event, Received), event
        return event

    def furnish(self, count: int, position: int) -> None:
        """`count` messages in queue 0 of T, a second apart; the position of group g there is `position`."""
        self.ask(PutTopic(1, Topic("T", 2, 2)))
        self.ask(PutGroup(1, Group("g")))
        for at in range(count):
            self.handler.sending.submit([Message("T", b"%d" % at, queue_id=0)], None)
            self.clock.run_for(1_000)
        self.ask(CommitOffsets(1, "g", [("T", 0, position)]))


@pytest.fixture
def bench() -> Bench:
    return open_bench(StoreSettings(broker="broker-a", store_host=host_bytes("127.0.0.1", 10911)))


def open_bench(config: StoreSettings) -> Bench:
    """A dispatcher over a new store."""
    clock = VirtualClock()
    store = open_store(MemoryDisk(clock), clock, config, unheard)
    # With late answers, what came between the answer of a read and the begin of the wait is read again.
    tails = LiveTails(lambda _topic: True, lambda _topic, _begins: None) if LATENESS.late else None
    policy = NodePolicy()
    handler = Dispatcher(
        store=reached(store, clock), clock=clock, entropy=FixedEntropy(), cluster="DefaultCluster",
        broker="broker-a", policy=policy, tails=tails,
    )  # fmt: skip
    handler.add(PolicyChanging(policy, store.transactions.check_policy, store.metadata, None))
    clock.run_for(50)
    return Bench(clock, store, handler)


def bodies(event: Received | Pulled) -> list[str]:
    records = event.records if isinstance(event, Pulled) else [message.record for message in event.messages]
    return sorted(Record(record).body.decode() for record in records)


def code(events: list[Event]) -> ErrorCode:
    event = only(Refused, events)
    assert event.failure.text
    return event.failure.code


def append(bench: Bench, topic: str, body: str, **marks: str) -> int:
    """A message that is stored; its position in the log."""
    stored = properties.encode([("UNIQ_KEY", body), *marks.items()])
    placed: list[int] = []

    def done(result: list[Placed] | Failure) -> None:
        assert not isinstance(result, Failure)
        placed.append(result[0].physical_offset)

    bench.store.log.append([Message(topic, body.encode(), stored, queue_id=0)], done)
    bench.clock.run_for(20)
    return placed[0]
