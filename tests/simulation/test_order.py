"""Order on a whole node: message groups while members are killed, attempts repeated after a kill, locks of queues."""

from __future__ import annotations

import random

import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Publisher, Receiver, said
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "sim-order"
INVISIBLE_MS = 10_000


def ordered(seed: int) -> World:
    """A node with a FIFO topic of four queues and a group in order."""
    world = World.started(seed)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 4, message_type="FIFO")
    tool.group(GROUP, consumeMessageOrderly=True, retryMaxTimes=1_000)
    return world


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("seed", range(5))
def test_each_message_group_keeps_its_order_while_members_die(seed: int, power: bool) -> None:
    """A message is delivered only after all earlier messages of its message group were acknowledged."""
    world = ordered(seed)
    chance = random.Random(seed)
    publisher = Publisher(world, "p", TOPIC)
    groups = [f"group{number}" for number in range(5)]
    sent = {group: [f"{group}/{number}" for number in range(12)] for group in groups}
    for number in range(12):
        for group in groups:
            publisher.send(f"{group}/{number}", kind=pb.FIFO, group=group)
    members = [Receiver(world, f"m{number}", GROUP, TOPIC) for number in range(3)]
    handled: dict[str, list[str]] = {group: [] for group in groups}
    born, kills = len(members), 0
    for _ in range(400):
        if all(handled[group] == sent[group] for group in groups):
            break
        at = chance.randrange(len(members))
        member = members[at]
        found = member.receive(invisible_ms=INVISIBLE_MS, most=chance.randrange(1, 6))
        dies = chance.random() < 0.15
        for message in found[: chance.randrange(len(found) + 1)] if dies else found:
            group, body = message.system_properties.message_group, message.body.decode()
            assert body == sent[group][len(handled[group])], f"{body} after {handled[group]}"
            if member.ack(message) == pb.OK:
                handled[group].append(body)
        if dies:
            member.hang_up()
            members[at] = Receiver(world, f"m{born}", GROUP, TOPIC)
            born += 1
        if chance.random() < 0.2:
            world.again(power)
            kills += 1
        world.clock.run_for(chance.choice((10, 500, INVISIBLE_MS)))
    assert handled == sent
    assert kills


def test_an_attempt_that_is_repeated_gets_the_same_again_and_another_one_waits() -> None:
    world = ordered(41)
    publisher = Publisher(world, "p", TOPIC)
    for number in range(4):
        publisher.send(f"{number}", kind=pb.FIFO, group="lane")
    first, second = (Receiver(world, name, GROUP, TOPIC) for name in ("first", "second"))
    assert said(first.receive(most=2, attempt="a1")) == ["0", "1"]
    assert said(first.receive(most=2, attempt="a1")) == ["0", "1"], "the answer was lost"
    assert second.receive(attempt="b1") == []
    world.again()
    again = first.receive(most=2, attempt="a1")
    assert said(again) == ["0", "1"], "over a kill too"
    assert [message.system_properties.delivery_attempt for message in again] == [1, 1]
    assert second.receive(attempt="b2") == []
    assert first.ack(again[0]) == pb.OK
    assert second.receive(attempt="b3") == [], "the second one is still out"
    world.clock.run_for(60_000)
    late = second.receive(attempt="b4")
    assert said(late)[0] == "1"
    assert late[0].system_properties.delivery_attempt == 2


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_orderly_pop_over_a_kill(power: bool) -> None:
    world = ordered(42)
    sender = Sender(world, "p")
    for number in range(6):
        sender.send(TOPIC, b"%d" % number, queue=0, __SHARDINGKEY="lane")
    consumer = Consumer(world, "c", GROUP, TOPIC)
    seen: list[str] = []
    for turn in range(6):
        found = consumer.pop(most=1, order=True, invisible_ms=1_000, attempt=f"a{turn}")
        assert consumer.pop(most=1, order=True, attempt=f"b{turn}") == [], "the queue waits for its first"
        seen += [one.body for one in found]
        assert [consumer.ack(one) for one in found] == [0]
        world.again(power)
    assert seen == [str(number) for number in range(6)]
