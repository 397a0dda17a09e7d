"""Lite topics under a seed: a whole node, killed and powered off while messages are sent, received and acknowledged.

Invariants of every run: no acknowledged message is delivered again, all others are, and each lite topic keeps its order.
"""

from __future__ import annotations

import random

import pytest

from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.command import Acknowledge, Send
from domain.event import Received, Sent, Settled
from domain.message.message import Message
from domain.message.record import Record
from domain.topic import lite
from domain.topic.lite import LiteAction, ReceiveLite, SyncSubscription
from domain.topic.topic import Group, Topic
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.world import World

PARENT, GROUP = "sessions", "agents"
NAMES = [f"s{at}" for at in range(20)]
LEASE_MS = 2_000


class Agent:
    """One client: sends, polls and acknowledges, and subscribes again after each start of the node."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.recorder = EventRecorder("grpc")
        self.sent: dict[str, list[int]] = {name: [] for name in NAMES}
        self.acknowledged: dict[str, list[int]] = {name: [] for name in NAMES}
        self.unsure: dict[str, set[int]] = {name: set() for name in NAMES}
        self.number = 0

    def ask(self, command: object, ms: float = 30) -> list[object]:
        assert self.world.parts is not None
        self.world.parts.handler.handle(self.recorder.connection, command)  # type: ignore[arg-type]
        self.world.clock.run_for(ms)
        return list(self.recorder.take())

    def connect(self) -> None:
        """Make a new connection and subscribe to all lite topics of the client."""
        self.recorder = EventRecorder("grpc")
        self.ask(SyncSubscription(1, "c", GROUP, PARENT, LiteAction.COMPLETE_ADD, NAMES))

    def send(self) -> None:
        name = self.chance.choice(NAMES)
        self.number += 1
        stored = f"__LITE_TOPIC\x01{name}\x02".encode()
        events = self.ask(Send(1, [Message(PARENT, b"%d" % self.number, stored)]), self.chance.choice((0.0, 30.0)))
        if any(isinstance(event, Sent) for event in events):
            self.sent[name].append(self.number)
        else:
            self.unsure[name].add(self.number)

    def receive(self, settle: float) -> None:
        """Receive all available messages; of each lite topic, acknowledge some of the first ones."""
        for event in self.ask(ReceiveLite(7, "c", GROUP, PARENT, 8, LEASE_MS)):
            if not isinstance(event, Received):
                continue
            before: dict[str, int] = {}
            for leased in event.messages:
                record = Record(leased.record)
                name, number = lite.name_in(record.properties), int(record.body)
                assert number > before.get(name, 0), "out of order within one answer"
                before[name] = number
                assert number not in self.acknowledged[name], "acknowledged before"
                assert number > max(self.acknowledged[name], default=0), "behind a later one"
            self.settle(event, settle)

    def settle(self, event: Received, share: float) -> None:
        stopped: set[str] = set()
        for leased in event.messages:
            record = Record(leased.record)
            name = lite.name_in(record.properties)
            if name in stopped or self.chance.random() > share:
                stopped.add(name)
                continue
            outcome = self.ask(Acknowledge(1, GROUP, lite.queue_name(PARENT, name), [leased.receipt]))
            if outcome == [Settled(1, [None])]:
                self.acknowledged[name].append(int(record.body))
            else:
                stopped.add(name)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("seed", range(8))
def test_exactly_what_was_not_acknowledged_comes_again_in_order(seed: int, power: bool) -> None:
    world = World.started(seed)
    agent = Agent(world, seed)
    agent.ask(PutTopic(1, Topic(PARENT, 4, 4, type="LITE")), 200)
    agent.ask(PutGroup(1, Group(GROUP, retry_max=1_000, attributes={"lite.bind.topic": PARENT})), 200)
    agent.connect()
    for turn in range(200):
        agent.send()
        if turn % 3 == 0:
            agent.receive(0.7)
        if agent.chance.random() < 0.03:
            world.kill(power)
            world.start()
            world.clock.run_for(50)
            agent.connect()
    for _ in range(400):
        world.clock.run_for(LEASE_MS / 4)
        agent.receive(1.0)
        if all(set(agent.sent[name]) <= set(agent.acknowledged[name]) for name in NAMES):
            break
    for name in NAMES:
        found = agent.acknowledged[name]
        assert found == sorted(set(found))
        assert set(agent.sent[name]) <= set(found) <= set(agent.sent[name]) | agent.unsure[name]
