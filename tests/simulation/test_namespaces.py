"""Namespaces on a whole node: three ways to name them, one stored form, and no mixing of equal names in two namespaces.

first     remoting's `setNamespace`: the client writes `space%name` itself
second    remoting's `setNamespaceV2`: bare names, and the fields `ns` and `nsd` with every request
grpc      `resource_namespace` in every resource, bare names
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from domain.message import property as properties
from protocols.remoting import codes
from tests.simulation.caller import bodies, records
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Publisher, Receiver, said
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "workers"
RED, BLUE = "red", "blue"
KINDS = ["first", "second", "grpc"]


def stored(space: str, name: str) -> str:
    """The stored form of a name in a namespace."""
    return f"{space}%{name}" if space else name


class Spaced:
    """Mixed in before a Caller: sends its namespace in request fields instead of in names."""

    def __init__(self, world: World, space: str, *about: str) -> None:
        self.space = space
        super().__init__(world, *about)  # type: ignore[call-arg]

    def post(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", oneway: bool = False, flag: int = 0
    ) -> int:
        # Without a namespace the SDK sends no such fields.
        named = {**(fields or {}), "ns": self.space, "nsd": "true"} if self.space else fields
        return super().post(code, named, body, oneway, flag)  # type: ignore[misc,no-any-return]


class SpacedSender(Spaced, Sender):
    """A producer that sends its namespace in request fields."""


class SpacedConsumer(Spaced, Consumer):
    """A consumer that sends its namespace in request fields."""


class Application:
    """One producer and one consumer in a namespace, named in one of the three ways. Arguments are names without namespace."""

    def __init__(self, world: World, space: str, kind: str) -> None:
        self.world, self.space, self.kind = world, space, kind
        name = f"{kind}-{space or 'none'}"
        self.topic, self.group = (stored(space, TOPIC), stored(space, GROUP)) if kind == "first" else (TOPIC, GROUP)
        if kind == "grpc":
            self.publisher = Publisher(world, f"{name}-p", TOPIC, space)
            self.receiver = Receiver(world, f"{name}-c", GROUP, TOPIC, space=space)
            return
        if kind == "second":
            self.sender: Sender = SpacedSender(world, space, f"{name}-p")
            self.consumer: Consumer = SpacedConsumer(world, space, f"{name}-c", self.group, self.topic)
        else:
            self.sender = Sender(world, f"{name}-p")
            self.consumer = Consumer(world, f"{name}-c", self.group, self.topic)

    def send(self, text: str, key: str = "k") -> None:
        """Send one message to queue 0 (over gRPC, to any queue)."""
        if self.kind == "grpc":
            self.publisher.send(text, key=key)
        else:
            self.sender.send(self.topic, text.encode(), queue=0, KEYS=key)

    def take(self) -> list[str]:
        """Receive all available messages and settle them. Returns the bodies."""
        if self.kind == "grpc":
            messages = self.receiver.receive()
            assert {message.topic.name for message in messages} <= {TOPIC}
            assert {message.topic.resource_namespace for message in messages} <= {self.space}
            assert [self.receiver.ack(message) for message in messages] == [20_000] * len(messages)
            return said(messages)
        found = self.consumer.pop()
        assert {one.record.topic for one in found} <= {self.topic}
        assert [self.consumer.ack(one) for one in found] == [0] * len(found)
        return [one.body for one in found]


def up(seed: int, *spaces: str) -> tuple[World, Tool]:
    """A node with the topic and the group in every namespace, under their stored names."""
    world = World.started(seed)
    tool = Tool(world, "tool")
    for space in spaces:
        tool.topic(stored(space, TOPIC), 1)
        tool.group(stored(space, GROUP), retryMaxTimes=1)
    return world, tool


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
@pytest.mark.parametrize("by", KINDS)
@pytest.mark.parametrize("to", KINDS)
def test_the_three_ways_lead_to_one_place_and_no_other(by: str, to: str, faults: str) -> None:
    world, _ = up(231, RED, BLUE, "")
    red, blue, bare = Application(world, RED, by), Application(world, BLUE, by), Application(world, "", by)
    for app in (red, blue, bare):
        app.send(f"for {app.space}")
    world.disturb(faults)
    for space in (BLUE, "", RED):
        assert bodies(world.stored(stored(space, TOPIC), 1)[0]) == [f"for {space}"]
        assert Application(world, space, to).take() == [f"for {space}"]
        assert world.position(stored(space, GROUP), stored(space, TOPIC), 0) == 1


@pytest.mark.parametrize("kind", ["first", "second"])
@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_retries_and_dead_letters_stay_inside(kind: str, faults: str) -> None:
    world, _ = up(232, RED, BLUE)
    red, blue = Application(world, RED, kind), Application(world, BLUE, kind)
    red.send("poison")
    (record,) = red.consumer.drain(0)
    for times in range(2):
        assert red.consumer.give_back(record, level=1) == 0
        world.disturb(faults)
        world.clock.run_for(2_000)
        retry = f"%RETRY%{red.group}"
        if times == 0:
            (record,) = red.consumer.drain(0, 0, retry)
            assert (record.topic, properties.text(record.properties, "RETRY_TOPIC")) == (retry, red.topic)
    (letter,) = red.consumer.drain(0, 0, f"%DLQ%{red.group}")
    assert (letter.body, letter.topic) == (b"poison", f"%DLQ%{red.group}")
    assert properties.text(letter.properties, "DLQ_ORIGIN_TOPIC") == red.topic
    assert len(world.stored(f"%DLQ%{RED}%{GROUP}", 1)[0]) == 1
    assert blue.consumer.drain(0, 0, f"%RETRY%{blue.group}") == blue.consumer.drain(0, 0, f"%DLQ%{blue.group}") == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_settled_comes_again_inside_and_ends_as_a_dead_letter_there(kind: str) -> None:
    world, _ = up(233, RED, BLUE)
    red, blue = Application(world, RED, kind), Application(world, BLUE, kind)
    red.send("poison")
    for _ in range(2):
        if kind == "grpc":
            assert said(red.receiver.receive(invisible_ms=10_000)) == ["poison"]
        else:
            assert [one.body for one in red.consumer.pop(invisible_ms=10_000)] == ["poison"]
        world.again()
        world.clock.run_for(10_000)
        assert blue.take() == []
    assert red.take() == []
    world.clock.run_for(100)
    assert bodies(world.stored(f"%DLQ%{RED}%{GROUP}", 1)[0]) == ["poison"]


@pytest.mark.parametrize("faults", ["none", "kill"])
def test_queries_and_resets_of_one_leave_the_other_alone(faults: str) -> None:
    world, tool = up(234, RED, BLUE)
    apps = [Application(world, space, kind) for space in (RED, BLUE) for kind in KINDS]
    for app in apps:
        app.send(f"{app.space} {app.kind}")
    world.clock.run_for(60_000)
    world.disturb(faults)
    for space in (RED, BLUE):
        assert sorted(bodies(tool.by_key(stored(space, TOPIC), "k"))) == sorted(f"{space} {kind}" for kind in KINDS)
        inside = next(app for app in apps if (app.space, app.kind) == (space, "second"))
        answer = inside.consumer.call(codes.QUERY_MESSAGE, {
            "topic": TOPIC, "key": "k", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": str(1 << 50),
        })  # fmt: skip
        assert answer.code == 0
        assert {record.topic for record in records(answer.body)} == {TOPIC}
        for app in apps:
            if app.space == space and app.kind != "grpc":
                app.consumer.drain(0)
                app.consumer.commit(0, 3)
    assert tool.reset(stored(RED, GROUP), stored(RED, TOPIC), 0) == {0: 0}
    world.disturb(faults)
    assert world.position(stored(RED, GROUP), stored(RED, TOPIC), 0) == 0
    assert world.position(stored(BLUE, GROUP), stored(BLUE, TOPIC), 0) == 3
    assert apps[KINDS.index("second") + len(KINDS)].consumer.position(0) == 3
    assert apps[KINDS.index("second")].consumer.position(0) == 0
    members = {app.space: app.consumer.members() for app in apps if app.kind == "second"}
    assert members[RED] != members[BLUE]
    assert all(name.endswith(f"-{space}-c") for space, names in members.items() for name in names)


def test_a_namespace_that_cannot_be_one_reaches_nothing() -> None:
    world, _ = up(235, RED)
    for kind in ("second", "grpc"):
        app = Application(world, "red%red", kind)
        if kind == "second":
            assert app.sender.refused(TOPIC, b"body") != 0
        else:
            with pytest.raises(AssertionError):
                app.publisher.send("body")
    assert world.stored(stored(RED, TOPIC), 1) == [[]]
