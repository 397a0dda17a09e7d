"""Retention by time on a whole node: members that lag, expiry, queries before and after."""

from __future__ import annotations

import json

import pytest

from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer
from tests.simulation.http_caller import HttpCaller
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC = "sim"
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


def steady(seed: int, count: int, step_ms: int = MINUTE_MS) -> tuple[World, Sender, Tool, list[dict[str, str]]]:
    """A node with a retention of 72 steps and `count` messages, one a step, in one queue. Returns the sends' answers too."""
    # 72 hours are the default.
    kept = {} if step_ms == HOUR_MS else {"retention_ms": 72 * step_ms}
    world = World.started(seed, Config(tables={"store": {"segment_bytes": 64 * 1024, **kept}}))
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic(TOPIC, 1)
    return world, sender, tool, [one for number in range(count) for one in send(world, sender, number, step_ms)]


def send(world: World, sender: Sender, number: int, step_ms: int = MINUTE_MS) -> list[dict[str, str]]:
    """Send message `number` of 20 KiB, and advance the time by a step."""
    sent = sender.send(
        TOPIC, b"%d " % number + b"." * 20_000, 0, 0, UNIQ_KEY=f"ID{number:06}", KEYS=f"all k{number} t{number // 10}"
    )
    world.clock.run_for(step_ms)
    return [sent]


def numbers(found: list[str]) -> list[int]:
    """The numbers of the messages."""
    return [int(text.split()[0]) for text in found]


@pytest.mark.parametrize(("faults", "step_ms"), [("kill", HOUR_MS), ("none", MINUTE_MS), ("power", MINUTE_MS)])
def test_after_72_hours_the_oldest_go_and_who_lags_is_told_where_to_go_on(faults: str, step_ms: int) -> None:
    world, sender, _, _ = steady(91, 10, step_ms)
    consumer = Consumer(world, "lags", "g", TOPIC)
    consumer.drain(0)
    consumer.commit(0, 2)
    for number in range(10, 100):
        send(world, sender, number, step_ms)
        if faults != "none" and number % 20 == 0:
            world.again(power=faults == "power")
    first, end = world.bounds(TOPIC, 0)
    assert 100 - 72 - 8 <= first <= 100 - 72, "no message goes early, and a segment's time more is the most that stays"
    assert end == 100
    answer = consumer.pull(0, consumer.position(0))
    assert answer.code == codes.PULL_OFFSET_MOVED
    fields = answer.fields() or {}
    assert (fields["nextBeginOffset"], fields["minOffset"], fields["maxOffset"]) == (str(first), str(first), "100")
    assert numbers(bodies(consumer.drain(0, first))) == list(range(first, 100))
    beyond = consumer.pull(0, 1_000)
    assert beyond.code == codes.PULL_OFFSET_MOVED
    assert (beyond.fields() or {})["nextBeginOffset"] == "100"
    popper = Consumer(world, "pop", "pops", TOPIC)
    assert numbers([one.body for one in popper.pop(most=1)]) == [first]


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_a_receiver_that_lags_goes_on_at_the_first_that_is_left(faults: str) -> None:
    world, sender, _, _ = steady(92, 10)
    popper = Consumer(world, "pop", "pops", TOPIC)
    for one in popper.pop(most=3):
        assert popper.ack(one) == 0
    for number in range(10, 100):
        send(world, sender, number)
    world.disturb(faults)
    first, _ = world.bounds(TOPIC, 0)
    got: list[int] = []
    while found := popper.pop():
        got += numbers([one.body for one in found])
        assert [popper.ack(one) for one in found] == [0] * len(found)
    assert got == list(range(first, 100))
    assert popper.position(0) == 100


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_queries_by_key_id_place_and_time_before_and_after_retention(faults: str) -> None:
    world, sender, tool, sent = steady(93, 40)
    began = world.clock.wall_ms() - 40 * MINUTE_MS

    def ask(present: range) -> None:
        world.disturb(faults)
        for number in (0, 5, 39):
            wanted = [number] if number in present else []
            assert numbers(bodies(tool.by_key(TOPIC, f"k{number}"))) == wanted
            assert numbers(bodies(tool.by_key(TOPIC, f"ID{number:06}", unique=True))) == wanted
            assert numbers(bodies(tool.by_offset_id(sent[number]["msgId"]))) == wanted
        ten = [number for number in range(29, 19, -1) if number in present]
        assert numbers(bodies(tool.by_key(TOPIC, "t2"))) == ten, "newest first"
        some = tool.by_key(TOPIC, "t2", began + 22 * MINUTE_MS - 10_000, began + 25 * MINUTE_MS - 10_000)
        assert numbers(bodies(some)) == [number for number in (24, 23, 22) if number in present]
        assert tool.by_key(TOPIC, "k") == []

    ask(range(40))
    for number in range(40, 100):
        send(world, sender, number)
    first, end = world.bounds(TOPIC, 0)
    assert 20 <= first <= 28
    ask(range(first, end))
    assert numbers(bodies(tool.by_key(TOPIC, "all"))) == list(range(99, 99 - 64, -1)), "64 at most"


def test_a_topic_that_is_silent_for_months_keeps_its_offsets() -> None:
    """All messages are deleted; the next message has the next offset, and positions are still valid."""
    world, sender, _, _ = steady(94, 10)
    consumer = Consumer(world, "c", "g", TOPIC)
    consumer.commit(0, 7)
    for _ in range(3):
        world.kill(power=False)
        world.clock.step_wall(30 * 24 * HOUR_MS)
        world.start()
        world.clock.run_for(60_000)
        sender.send("noise", b"." * 60_000)
        sender.send("noise", b"." * 60_000)
        world.clock.run_for(60_000)
    assert world.bounds(TOPIC, 0) == (10, 10)
    assert consumer.position(0) == 7
    assert sender.send(TOPIC, b"10 ", 0)["queueOffset"] == "10"
    assert bodies(consumer.drain(0, 10)) == ["10 "]


@pytest.mark.parametrize("by", ["http", "mqadmin"])
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_a_topic_keeps_what_it_says_by_time_and_bytes(by: str, power: bool) -> None:
    """Three topics get the same messages; one keeps less by time, one less by bytes, one for longer than the store."""
    world = World.started(17, Config(tables={"store": {"segment_bytes": 64 * 1024, "retention_ms": 20 * MINUTE_MS}}))
    tool, sender, http = Tool(world, "tool"), Sender(world, "p"), HttpCaller(world)
    kept = {
        "short": {"retention.ms": 5 * MINUTE_MS},
        "small": {"retention.bytes": 64_000},
        "long": {"retention.ms": 2 * HOUR_MS},
    }
    for name, attributes in kept.items():
        if by == "http":
            members = {key.replace(".", "_"): value for key, value in attributes.items()}
            assert http.ask("PUT", f"/v1/topics/{name}", json.dumps({"queues": 1, **members}).encode())[0] == 204
        else:
            tool.topic(name, 1, **{key: str(value) for key, value in attributes.items()})
    tool.topic(TOPIC, 1)
    for number in range(60):
        for name in (*kept, TOPIC):
            sender.send(name, b"%d " % number + b"." * 8_000, 0, 0)
        world.clock.run_for(MINUTE_MS)
        if number == 30:
            world.again(power=power)
    first = {name: world.bounds(name, 0)[0] for name in (*kept, TOPIC)}
    assert 54 <= first["short"] <= 56
    assert 50 <= first["small"] <= 55, "at most 64,000 bytes of messages of 8,000 bytes"
    assert first["long"] == 0
    assert first[TOPIC] == 0, "its messages are in the same segments as those of the topic that keeps them for longer"
    for name, attributes in kept.items():
        document = json.loads(http.ask("GET", f"/v1/topics/{name}")[2])
        assert document["retention_ms"] == attributes.get("retention.ms", 0)
        assert document["retention_bytes"] == attributes.get("retention.bytes", 0)
