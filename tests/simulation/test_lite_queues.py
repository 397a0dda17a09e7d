"""Lite queues on a whole node by raw frames: pull by name, POP of lite topics, and retention by the parent topic."""

from __future__ import annotations

import json
from functools import partial

import pytest

from domain.topic import lite
from domain.topic.topic import Topic
from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.caller import bodies, records
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

PARENT, GROUP = "sessions", "agents"
LITE_QUEUE = f"%LMQ%${PARENT}$a"
PULL = {
    "topic": PARENT, "queueId": "0", "maxMsgNums": "8", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
    "subscription": "*", "subVersion": "0",
}  # fmt: skip


def at(group: str = "", **fields: str) -> dict[str, str]:
    """Fields that name a lite queue."""
    return {"consumerGroup": group, "topic": LITE_QUEUE, "queueId": "0", **fields}


class LiteMember(Consumer):
    """A member that subscribes to lite topics and receives from them (codes 200071, 200070, 200072)."""

    def has(self, *names: str) -> None:
        """Subscribe to exactly these lite topics."""
        entry = {
            "action": "COMPLETE_ADD", "clientId": self.name, "group": self.group, "topic": PARENT,
            "liteTopicSet": list(names), "version": 1,
        }  # fmt: skip
        self.done(codes.LITE_SUBSCRIPTION, {}, {"subscriptionSet": [entry]})

    def receive(self, invisible_ms: int = 10_000) -> list[str]:
        """Receive by POP_LITE without settling. Returns the bodies."""
        fields = {
            "clientId": self.name, "consumerGroup": self.group, "topic": PARENT, "maxMsgNum": "32",
            "invisibleTime": str(invisible_ms), "pollTime": "0", "bornTime": str(self.clock.wall_ms()),
        }  # fmt: skip
        answer = self.call(codes.POP_LITE, fields)
        return bodies(records(answer.body)) if answer.code == 0 else []


def up(seed: int, **topic: object) -> tuple[World, Tool, Sender]:
    """A node with the parent topic and its group, which applies retention every second."""
    world = World.started(seed, Config(tables={"store": {"retention_check_ms": 1_000}}))
    tool = Tool(world, "tool")
    assert world.parts is not None
    made: list[object] = []
    world.parts.store.metadata.put_topic(Topic(PARENT, 2, 2, type="LITE", **topic), made.append)  # type: ignore[arg-type]
    world.clock.run_until(lambda: made == [None])
    tool.group(GROUP, attributes={"lite.bind.topic": PARENT}, retryMaxTimes=3)
    return world, tool, Sender(world, "p")


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_a_lite_queue_is_read_by_offset_and_nothing_is_taken_from_its_group(faults: str) -> None:
    """Pull by queue name, as from Apache's broker with enableLmq, or by topic and field liteTopic (PullMessageProcessor)."""
    world, tool, sender = up(271)
    for number in range(3):
        sender.send(PARENT, b"%d" % number, queue=number % 2, __LITE_TOPIC="a")
        sender.send(PARENT, b"other", queue=0, __LITE_TOPIC="b")
    member = LiteMember(world, "m", GROUP, PARENT)
    world.clock.run_for(100)
    stranger = Consumer(world, "s", "strangers", PARENT, joins=False)
    for client in (member, stranger):
        assert bodies(client.drain(0, 0, LITE_QUEUE)) == ["0", "1", "2"]
        found = client.pull(0, 1, LITE_QUEUE, most=1)
        fields = found.fields() or {}
        assert [fields[key] for key in ("nextBeginOffset", "minOffset", "maxOffset")] == ["2", "0", "3"]
        [record] = records(found.body)
        assert lite.offset_in(record.properties) == 1, "clients take their offset from here"
        beyond = client.pull(0, 9, LITE_QUEUE)
        assert (beyond.code, (beyond.fields() or {})["nextBeginOffset"]) == (codes.PULL_OFFSET_MOVED, "3")
        assert client.pull(1, 0, LITE_QUEUE).code != 0, "it is one queue"
        by_field = client.call(codes.PULL, {**PULL, "consumerGroup": client.group, "liteTopic": "b", "queueOffset": "2"})
        assert bodies(records(by_field.body)) == ["other"]
    assert tool.call(codes.UPDATE_OFFSET, at("strangers", commitOffset="2")).code == 0
    world.disturb(faults)
    assert (tool.call(codes.QUERY_OFFSET, at("strangers")).fields() or {})["offset"] == "2"
    for code, offset in ((codes.GET_MIN_OFFSET, "0"), (codes.GET_MAX_OFFSET, "3")):
        assert (tool.call(code, at()).fields() or {})["offset"] == offset
    place = {"topic": PARENT, "liteTopic": "a", "queueId": "0", "timestamp": str(world.clock.wall_ms())}
    assert (tool.call(codes.SEARCH_OFFSET, place).fields() or {})["offset"] == "3"
    member.has("a")
    assert member.receive() == ["0", "1", "2"], "in order, and nothing of it was passed"
    assert world.position(GROUP, LITE_QUEUE, 0) == 0
    assert tool.route(LITE_QUEUE) is None


def test_who_waits_at_the_end_of_a_lite_queue_is_woken_by_its_message_alone() -> None:
    world, _, sender = up(275)
    sender.send(PARENT, b"0", __LITE_TOPIC="a")
    reader = Consumer(world, "r", "readers", PARENT, joins=False)
    clock = world.clock
    begun = clock.monotonic_ns()

    def send(body: bytes, name: str) -> None:
        sender.begin(PARENT, body, __LITE_TOPIC=name)

    clock.call_at(begun + 1_000_000_000, partial(send, b"not mine", "b"))
    clock.call_at(begun + 2_000_000_000, partial(send, b"1", "a"))
    found = reader.pull(0, 1, LITE_QUEUE, wait_ms=10_000)
    assert bodies(records(found.body)) == ["1"]
    assert 2_000_000_000 <= clock.monotonic_ns() - begun < 2_500_000_000
    assert reader.pull(0, 2, LITE_QUEUE, wait_ms=3_000).code == codes.PULL_NOT_FOUND
    assert world.parts is not None
    assert world.parts.handler.pulling.waiting() == 0


def test_names_of_lite_queues_that_nobody_can_have() -> None:
    world, tool, sender = up(276)
    tool.topic("plain")
    sender.send("plain", b"x")
    reader = Consumer(world, "r", "readers", PARENT, joins=False)
    for name in ("%LMQ%$plain$a", "%LMQ%$absent$a", f"%LMQ%${PARENT}$a b", f"%LMQ%${PARENT}$", "%LMQ%a"):
        assert reader.pull(0, 0, name).code == codes.TOPIC_NOT_EXIST, name
        assert tool.call(codes.UPDATE_OFFSET, {**at("readers", commitOffset="1"), "topic": name}).code == codes.TOPIC_NOT_EXIST
    assert reader.pull(0, 0, f"%LMQ%${PARENT}$never").code == codes.PULL_NOT_FOUND


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_what_its_topic_no_longer_keeps_is_not_received(faults: str) -> None:
    """Retention by bytes of a parent topic: queues and lite queues lose the same messages, before and after a kill."""
    world, tool, sender = up(272, retention_bytes=8_000)
    member = LiteMember(world, "m", GROUP, PARENT)
    for number in range(12):
        sender.send(PARENT, b"%d " % number + b"." * 1_500, queue=number % 2, __LITE_TOPIC="a" if number % 3 else "b")
    for _ in range(2):
        world.disturb(faults)
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
