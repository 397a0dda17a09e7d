"""Lite topics on a whole node over time: idle ones are deleted, exclusive ones change owner, silent clients lose theirs."""

from __future__ import annotations

import pytest

from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.command import Acknowledge, Send
from domain.event import Done, Event, Received, Sent, Settled
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.lite import LiteAction, OffsetOption, OffsetOptionType, ReceiveLite, SyncSubscription, queue_name
from domain.topic.topic import Group, Topic
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.world import World

PARENT, GROUP = "sessions", "agents"
MINUTE_MS = 60_000


class Subscriber:
    """A client of lite topics, with a new connection after each start of the node."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.recorder = EventRecorder("grpc")

    def ask(self, command: object) -> list[Event]:
        """Handle one command. Returns the events of the next 50 ms."""
        assert self.world.parts is not None
        self.world.parts.handler.handle(self.recorder.connection, command)  # type: ignore[arg-type]
        self.world.clock.run_for(50)
        return self.recorder.take()

    def has(
        self,
        *names: str,
        action: LiteAction = LiteAction.COMPLETE_ADD,
        start: OffsetOption | None = None,
    ) -> list[Event]:
        """Subscribe to lite topics. Returns the events other than the answer."""
        recorded = self.ask(SyncSubscription(1, self.name, GROUP, PARENT, action, list(names), start))
        assert any(isinstance(event, Done) for event in recorded), recorded
        return [event for event in recorded if not isinstance(event, Done)]

    def send(self, name: str, body: str) -> None:
        """Send to a lite topic."""
        stored = f"__LITE_TOPIC\x01{name}\x02".encode()
        assert isinstance(self.ask(Send(1, [Message(PARENT, body.encode(), stored)]))[0], Sent)

    def take(self, name: str = "") -> list[str]:
        """Receive, and settle the messages if `name` gives their lite topic."""
        recorded = self.ask(ReceiveLite(1, self.name, GROUP, PARENT, 8, 10_000))
        (event,) = (event for event in recorded if isinstance(event, Received))
        receipts = [leased.receipt for leased in event.messages]
        if receipts and name:
            assert self.ask(Acknowledge(1, GROUP, queue_name(PARENT, name), receipts)) == [Settled(1, [None] * len(receipts))]
        return [Record(leased.record).body.decode() for leased in event.messages]


def up(seed: int, topic: dict[str, str], group: dict[str, str]) -> World:
    """A node with the parent topic and the group."""
    world = World.started(seed)
    maker = Subscriber(world, "maker")
    maker.ask(PutTopic(1, Topic(PARENT, 4, 4, type="LITE", attributes=topic)))
    maker.ask(PutGroup(1, Group(GROUP, attributes={"lite.bind.topic": PARENT, **group})))
    return world


def names(world: World) -> list[str]:
    """Names of the existing lite topics."""
    assert world.parts is not None
    return sorted(world.parts.store.lite_queues.names(PARENT))


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_an_idle_lite_topic_ends_and_begins_anew(faults: str) -> None:
    world = up(141, {"lite.topic.expiration": "30"}, {})
    client = Subscriber(world, "c")
    client.has("idle", "busy")
    client.send("idle", "old")
    client.send("busy", "first")
    for _ in range(3):
        world.clock.run_for(9 * MINUTE_MS)
        if faults != "none":
            world.again(power=faults == "power")
            client.recorder = EventRecorder("grpc")
        client.send("busy", "more")
    assert names(world) == ["busy", "idle"], "27 minutes"
    world.clock.run_for(7 * MINUTE_MS)
    assert names(world) == ["busy"]
    if faults != "none":
        world.again(power=faults == "power")
        client.recorder = EventRecorder("grpc")
    assert names(world) == ["busy"]
    client.has("idle")
    assert client.take() == [], "it went with its messages"
    client.send("idle", "new")
    assert client.take("idle") == ["new"]


@pytest.mark.parametrize("start", [OffsetOptionType.MIN, OffsetOptionType.MAX, OffsetOptionType.TAIL, OffsetOptionType.OFFSET])
def test_where_a_subscription_begins_over_a_kill(start: OffsetOptionType) -> None:
    world = up(143, {}, {})
    client = Subscriber(world, "c")
    for number in range(4):
        client.send("x", str(number))
    value = {OffsetOptionType.TAIL: 1, OffsetOptionType.OFFSET: 2}.get(start, 0)
    client.has("x", action=LiteAction.PARTIAL_ADD, start=OffsetOption(start, value))
    world.again(power=True)
    client.recorder = EventRecorder("grpc")
    client.has("x")
    wanted = {
        OffsetOptionType.MIN: ["0", "1", "2", "3"],
        OffsetOptionType.MAX: [],
        OffsetOptionType.TAIL: ["3"],
        OffsetOptionType.OFFSET: ["2", "3"],
    }[start]
    assert client.take("x") == wanted
    client.send("x", "new")
    assert client.take("x") == ["new"]
