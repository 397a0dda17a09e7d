"""Light queues on a whole node by raw frames: pulling them by name, POP of lite topics, and what their topic keeps of them."""

from __future__ import annotations

import json

import pytest

from domain.topic import Topic
from gateway.config import Config
from protocols.remoting import codes
from tests.simulation.caller import bodies, records
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

PARENT, GROUP = "sessions", "agents"
LIGHT = f"%LMQ%${PARENT}$a"


class LiteMember(Consumer):
    """A member that says which lite topics it has, and receives from them (codes 200071, 200070, 200072)."""

    def has(self, *names: str) -> None:
        """All that it has."""
        entry = {
            "action": "COMPLETE_ADD", "clientId": self.name, "group": self.group, "topic": PARENT,
            "liteTopicSet": list(names), "version": 1,
        }  # fmt: skip
        self.done(codes.LITE_SUBSCRIPTION, {}, {"subscriptionSet": [entry]})

    def receive(self, invisible_ms: int = 10_000) -> list[str]:
        """POP_LITE, settling nothing."""
        fields = {
            "clientId": self.name, "consumerGroup": self.group, "topic": PARENT, "maxMsgNum": "32",
            "invisibleTime": str(invisible_ms), "pollTime": "0", "bornTime": str(self.clock.wall_ms()),
        }  # fmt: skip
        answer = self.call(codes.POP_LITE, fields)
        return bodies(records(answer.body)) if answer.code == 0 else []


def up(seed: int, **topic: object) -> tuple[World, Tool, Sender]:
    """A node with the parent topic and its group, which looks every second at what is to be kept."""
    world = World(seed, Config(tables={"store": {"retention_check_ms": 1_000}}))
    world.start()
    tool = Tool(world, "tool")
    assert world.parts is not None
    made: list[object] = []
    world.parts.store.metadata.put_topic(Topic(PARENT, 2, 2, type="LITE", **topic), made.append)  # type: ignore[arg-type]
    world.clock.run_until(lambda: made == [None])
    tool.group(GROUP, attributes={"lite.bind.topic": PARENT}, retryMaxTimes=3)
    return world, tool, Sender(world, "p")


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_a_light_queue_is_no_topic_to_pull_from_and_asking_harms_nobody(faults: str) -> None:
    """Light queues are received from alone: whoever pulls by their names is told that there is no such topic."""
    world, tool, sender = up(271)
    for number in range(3):
        sender.send(PARENT, b"%d" % number, __LITE_TOPIC="a")
    member = LiteMember(world, "m", GROUP, PARENT)
    world.clock.run_for(100)
    stranger = Consumer(world, "s", "strangers", PARENT, joins=False)
    for client in (member, stranger):
        for offset in (0, 2, 9):
            answer = client.pull(0, offset, LIGHT, wait_ms=5_000)
            assert (answer.code, answer.body) == (codes.TOPIC_NOT_EXIST, b"")
    tool.call(codes.UPDATE_OFFSET, {"consumerGroup": "strangers", "topic": LIGHT, "queueId": "0", "commitOffset": "2"})
    assert tool.route(LIGHT) is None
    if faults != "none":
        world.again(power=faults == "power")
    member.has("a")
    assert member.receive() == ["0", "1", "2"], "in order, and nothing of it was passed"
    assert world.position(GROUP, LIGHT, 0) == 0


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_what_its_topic_no_longer_keeps_is_not_received(faults: str) -> None:
    """The bound of bytes of a parent topic: queues and light queues have lost the same messages, before and after a kill."""
    world, tool, sender = up(272, retention_bytes=8_000)
    member = LiteMember(world, "m", GROUP, PARENT)
    for number in range(12):
        sender.send(PARENT, b"%d " % number + b"." * 1_500, queue=number % 2, __LITE_TOPIC="a" if number % 3 else "b")
    for _ in range(2):
        if faults != "none":
            world.again(power=faults == "power")
        world.clock.run_for(2_500)
        sender.send(PARENT, b"small", queue=0, __LITE_TOPIC="c")
        world.clock.run_for(2_500)
    kept = sorted(int(text.split()[0]) for queue in world.stored(PARENT, 2) for text in bodies(queue) if text != "small")
    assert kept
    assert kept == list(range(kept[0], 12))
    assert kept[0] >= 7, "8,000 bytes, 1,700 each"
    member.has("a", "b")
    assert sorted(int(text.split()[0]) for text in member.receive()) == kept
    answer = tool.call(codes.GET_LITE_TOPIC, {"parentTopic": PARENT, "liteTopic": "a"})
    found = json.loads(answer.body)
    assert found["topicOffset"]["minOffset"] > 0
