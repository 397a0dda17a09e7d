"""Positions on a whole node: durability of commits, start of a group, resets by time with and without members, clones."""

from __future__ import annotations

import pytest

from gateway.node.settings import Config
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.simulation.caller import bodies, records
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Receiver
from tests.simulation.tool import Tool
from tests.simulation.world import World
from tests.store.faults.soak import SOAK

TOPIC = "sim"
HOUR_MS = 3_600_000
COUNT = 10


def hourly(seed: int, **store: object) -> tuple[World, Sender, Tool, list[int]]:
    """A node with one message an hour in one queue. Returns the messages' store times too."""
    world = World.started(seed, Config(tables={"store": store}))
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic(TOPIC, 1)
    times: list[int] = []
    for number in range(COUNT):
        sender.send(TOPIC, b"%d" % number, queue=0)
        times.append(world.stored(TOPIC, 1)[0][-1].store_ms)
        world.clock.run_for(HOUR_MS)
    return world, sender, tool, times


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("seed", range(4 if SOAK else 1))
def test_a_position_that_was_acknowledged_is_never_forgotten(seed: int, power: bool) -> None:
    world, _, _, _ = hourly(seed)
    consumer = Consumer(world, "c", "g", TOPIC)
    assert consumer.position(0) <= 0
    for offset in range(1, COUNT + 1):
        assert bodies(consumer.drain(0, max(0, consumer.position(0)))) == [str(number) for number in range(offset - 1, COUNT)]
        consumer.commit(0, offset)
        world.again(power)
        assert consumer.position(0) == offset


def test_a_group_begins_at_the_first_the_last_or_an_instant() -> None:
    """Remoting clients decide: they ask for the position, the end of the queue, or the offset at a time."""
    world, sender, tool, times = hourly(82, hot_bytes=1)
    first = Consumer(world, "first", "first", TOPIC)
    assert bodies(first.drain(0, max(0, first.position(0)))) == [str(number) for number in range(COUNT)]
    assert tool.search(TOPIC, 0, times[4]) == 4
    assert tool.search(TOPIC, 0, times[4] + 1) == 5
    assert tool.search(TOPIC, 0, times[-1] + 1) == COUNT
    world.again()
    assert tool.search(TOPIC, 0, times[4] - HOUR_MS // 2) == 4
    for name, at_first, wanted in (("min", True, "0"), ("max", False, str(COUNT - 1))):
        popper = Consumer(world, name, name, TOPIC)
        assert popper.pop(first=at_first)[0].body == wanted
    sender.send(TOPIC, b"new", queue=0)
    last = Consumer(world, "max2", "max", TOPIC)
    assert [one.body for one in last.pop(first=False)] == ["new"]


def test_a_reset_by_time_with_members_that_pull_and_that_receive() -> None:
    world, _, tool, times = hourly(84)
    puller = Consumer(world, "puller", "pulls", TOPIC)
    puller.drain(0)
    puller.commit(0, COUNT)
    assert tool.reset("pulls", TOPIC, times[6]) == {0: 6}
    world.clock.run_for(50)
    assert [each.code for each in puller.heard if each.code == codes.RESET_CLIENT_OFFSET] == [], "it would begin twice"
    answer = puller.pull(0, COUNT)
    assert answer.code == codes.PULL_OFFSET_MOVED
    assert (answer.fields() or {})["nextBeginOffset"] == "6"
    assert bodies(puller.drain(0, 6)) == ["6", "7", "8", "9"]
    popper = Consumer(world, "popper", "pops", TOPIC)
    for one in popper.pop():
        assert popper.ack(one) == 0
    assert popper.pop() == []
    tool.reset("pops", TOPIC, times[8])
    assert [one.body for one in popper.pop()] == ["8", "9"]
    tool.reset("pops", TOPIC, times[7], force=True)
    world.again()
    assert [one.body for one in popper.pop()] == ["7", "8", "9"]


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_a_reset_by_time_gives_receivers_of_every_protocol_everything_anew(faults: str) -> None:
    """A reset ends the members' leases, and attempts begin at one."""
    world, _, tool, times = hourly(87)
    popper = Consumer(world, "popper", "g", TOPIC)
    receiver = Receiver(world, "receiver", "g", TOPIC)
    held = popper.pop(invisible_ms=HOUR_MS, most=3)
    for message in receiver.receive(most=4):
        assert receiver.ack(message) == pb.OK
    kept = receiver.receive(most=32, invisible_ms=HOUR_MS)
    assert [len(held), len(kept)] == [3, 3]
    assert tool.reset("g", TOPIC, times[2]) == {0: 2}
    world.disturb(faults)
    assert popper.ack(held[2]) == codes.NO_MESSAGE, "a receipt of before the reset: to the clients, nothing is there any more"
    assert popper.change(held[2], 5_000) != 0
    assert receiver.ack(kept[0]) != pb.OK
    first = popper.pop(most=2)
    assert [(one.body, one.record.reconsume_times) for one in first] == [("2", 0), ("3", 0)]
    rest = receiver.receive()
    assert [(message.body.decode(), message.system_properties.delivery_attempt) for message in rest] == [
        (str(number), 1) for number in range(4, COUNT)
    ]
    assert [popper.ack(one) for one in first] == [0, 0]
    assert [receiver.ack(message) for message in rest] == [pb.OK] * len(rest)
    world.disturb(faults)
    assert world.position("g", TOPIC, 0) == COUNT


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_a_lite_pull_consumer_that_assigns_and_seeks_is_given_what_it_asks_for(faults: str) -> None:
    """Code 361 by a client that is not a member: back, forward, to the end and beyond it; its position is what it commits."""
    world, sender, _, times = hourly(90)
    reader = Consumer(world, "reader", "g", TOPIC, joins=False)
    tool = Tool(world, "seeker")

    def lite(offset: int, wait_ms: int = 0) -> tuple[int, list[str], int]:
        fields = {
            "consumerGroup": "g", "topic": TOPIC, "queueId": "0", "queueOffset": str(offset), "maxMsgNums": "4",
            "sysFlag": "6" if wait_ms else "4", "commitOffset": "0", "suspendTimeoutMillis": str(wait_ms), "subscription": "*",
            "subVersion": "0", "expressionType": "TAG",
        }  # fmt: skip
        answer = reader.call(codes.LITE_PULL, fields)
        return answer.code, bodies(records(answer.body)), int((answer.fields() or {})["nextBeginOffset"])

    assert lite(0) == (0, ["0", "1", "2", "3"], 4)
    reader.commit(0, 4)
    world.disturb(faults)
    assert reader.position(0) == 4
    assert lite(tool.search(TOPIC, 0, times[7])) == (0, ["7", "8", "9"], COUNT)
    assert lite(1) == (0, ["1", "2", "3", "4"], 5)
    assert lite(COUNT) == (codes.PULL_NOT_FOUND, [], COUNT)
    assert lite(COUNT + 5) == (codes.PULL_OFFSET_MOVED, [], COUNT)
    clock = world.clock
    clock.call_at(clock.monotonic_ns() + 1_000_000_000, lambda: _begin(sender))
    assert lite(COUNT, wait_ms=15_000) == (0, ["new"], COUNT + 1)
    assert reader.position(0) == 4, "what is read is not what is committed"


def _begin(sender: Sender) -> None:
    sender.begin(TOPIC, b"new", 0)
