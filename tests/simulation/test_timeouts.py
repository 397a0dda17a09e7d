"""Consumers that are too slow, by raw frames on a whole node: the SDKs' action at the consume time-out, and its effects."""

from __future__ import annotations

import pytest

from domain.message import property as properties
from protocols.grpc.messages import messaging_pb2 as pb
from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Receiver, said
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "workers"
RETRY = f"%RETRY%{GROUP}"
MINUTE_MS = 60_000
TIMEOUT_MS = 15 * MINUTE_MS
LEVEL_3_MS = 10_000
FAULTS = pytest.mark.parametrize("faults", ["none", "kill", "power"])


def up(seed: int, count: int, **group: object) -> tuple[World, Sender]:
    """A node with `count` messages in one queue."""
    world = World.started(seed)
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic(TOPIC, 1)
    tool.group(GROUP, **group)
    for number in range(count):
        sender.send(TOPIC, b"%d" % number, 0, UNIQ_KEY=f"ID{number}")
    return world, sender


def disturb(world: World, faults: str) -> None:
    """Apply `faults` after half a second, within which requests without acknowledgement become durable."""
    if faults != "none":
        world.clock.run_for(600)
        world.again(power=faults == "power")


@FAULTS
def test_what_a_push_consumer_holds_for_fifteen_minutes_goes_back_and_its_position_goes_on(faults: str) -> None:
    """ProcessQueue.cleanExpiredMsg: the message is sent back with level 3 and removed, so that the position can advance."""
    world, _ = up(281, 4)
    consumer = Consumer(world, "c", GROUP, TOPIC)
    stuck, *others = consumer.drain(0)
    assert bodies(others) == ["1", "2", "3"]
    consumer.commit(0, 0)
    for _ in range(3):
        world.clock.run_for(TIMEOUT_MS / 3)
        disturb(world, faults)
        consumer.commit(0, 0)
    assert consumer.members() == ["c"], "a client that is busy beats on"
    assert consumer.drain(0, 4) == []
    assert consumer.give_back(stuck, level=3) == 0
    consumer.commit(0, 4)
    given_ms = world.clock.wall_ms()
    disturb(world, faults)
    world.clock.run_for(LEVEL_3_MS - 500 - (world.clock.wall_ms() - given_ms))
    assert consumer.drain(0, 0, RETRY) == []
    world.clock.run_for(700)
    (again,) = consumer.drain(0, 0, RETRY)
    assert (again.body, again.reconsume_times) == (b"0", 1)
    assert properties.text(again.properties, "ORIGIN_MESSAGE_ID") == "ID0"
    disturb(world, faults)
    assert world.position(GROUP, TOPIC, 0) == 4


@FAULTS
def test_a_consumer_that_is_slow_and_dies_loses_nothing_to_its_own_time_out(faults: str) -> None:
    """It sends back, and is killed before it commits: the other member gets the message twice, but never loses it."""
    world, _ = up(282, 3)
    slow = Consumer(world, "slow", GROUP, TOPIC)
    records = slow.drain(0)
    world.clock.run_for(TIMEOUT_MS)
    assert slow.give_back(records[0], level=3) == 0
    slow.hang_up()
    disturb(world, faults)
    world.clock.run_for(LEVEL_3_MS + 500)
    heir = Consumer(world, "heir", GROUP, TOPIC)
    assert bodies(heir.drain(0, max(0, heir.position(0)))) == ["0", "1", "2"]
    assert bodies(heir.drain(0, 0, RETRY)) == ["0"]


@FAULTS
def test_a_simple_consumer_over_grpc_that_is_too_slow(faults: str) -> None:
    world, _ = up(284, 2)
    slow, quick = Receiver(world, "slow", GROUP, TOPIC), Receiver(world, "quick", GROUP, TOPIC)
    first, second = slow.receive(invisible_ms=MINUTE_MS)
    disturb(world, faults)
    world.clock.run_for(MINUTE_MS / 2)
    assert slow.change(second, 2 * MINUTE_MS) == pb.OK
    world.clock.run_for(MINUTE_MS / 2 + 500)
    (again,) = quick.receive()
    assert (said([again]), again.system_properties.delivery_attempt) == (["0"], 2)
    disturb(world, faults)
    assert slow.ack(first) == pb.INVALID_RECEIPT_HANDLE
    assert (slow.ack(second), quick.ack(again)) == (pb.OK, pb.OK)
    world.clock.run_for(3 * MINUTE_MS)
    assert quick.receive() == []


@FAULTS
def test_an_orderly_pop_consumer_that_is_too_slow_is_overtaken_by_nobody(faults: str) -> None:
    world, _ = up(285, 3, consumeMessageOrderly=True)
    slow, quick = Consumer(world, "slow", GROUP, TOPIC), Consumer(world, "quick", GROUP, TOPIC)
    held = slow.pop(invisible_ms=MINUTE_MS, most=2, order=True)
    assert [one.body for one in held] == ["0", "1"]
    disturb(world, faults)
    assert quick.pop(order=True) == []
    world.clock.run_for(MINUTE_MS + 500)
    found = quick.pop(order=True)
    assert [(one.body, one.record.reconsume_times) for one in found] == [("0", 1), ("1", 1), ("2", 0)]
    assert slow.ack(held[0]) != 0
    assert [quick.ack(one) for one in found] == [0, 0, 0]
    assert world.position(GROUP, TOPIC, 0) == 3
