"""Dead letters that cannot be written, on a whole node: the volume is full when a message has used up its attempts.

The message must not be lost and must not be delivered again, by any protocol. It becomes a dead letter when there is space.
"""

from __future__ import annotations

import pytest

from domain.command import Send
from domain.message.message import Message
from protocols.grpc.messages import messaging_pb2 as pb
from tests.simulation.caller import bodies, records
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Receiver
from tests.simulation.test_interests import GROUP as LITE_GROUP
from tests.simulation.test_interests import PARENT, Subscriber, up
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "workers"
LEASE_MS = 1_000
FULL, ROOM = 0.01, 0.5


def worn(seed: int, ordered: bool) -> tuple[World, Sender]:
    """A node with a full volume, whose queue 0 contains "first", "poison" (its two attempts are used up) and "next"."""
    world = World.started(seed)
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic(TOPIC, 1)
    tool.group(GROUP, retryMaxTimes=1, consumeMessageOrderly=ordered)
    popper = Consumer(world, "pops", GROUP, TOPIC)
    sender.send(TOPIC, b"poison", 0)
    for _ in range(2):
        assert [one.body for one in popper.pop(invisible_ms=LEASE_MS, order=ordered)] == ["poison"]
        world.clock.run_for(LEASE_MS + 200)
    popper.hang_up()
    for text in (b"next", b"last"):
        sender.send(TOPIC, text, 0)
    fill(world, FULL)
    assert sender.refused(TOPIC, b"more") != 0
    return world, sender


def fill(world: World, free: float) -> None:
    """Set the free share of the volume and wait until the store has noticed."""
    world.disk.free = free
    world.clock.run_for(3_000)


class Puller:
    """A push consumer that pulls as its SDK does: from the offset of the last answer on, and commits what it has processed."""

    def __init__(self, world: World, name: str) -> None:
        self.consumer = Consumer(world, name, GROUP, TOPIC)
        self.offset = 0
        self.got: list[str] = []
        world.clock.run_for(100)

    def turn(self) -> None:
        """Pull once, process the messages, commit the position."""
        found = self.consumer.pull(0, self.offset, wait_ms=1_000)
        self.offset = int((found.fields() or {})["nextBeginOffset"])
        self.got += bodies(records(found.body))
        self.consumer.commit(0, self.offset)


@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_a_member_that_pulls_does_not_pass_what_has_no_dead_letter_yet(ordered: bool, faults: str) -> None:
    world, _ = worn(251, ordered)
    puller = Puller(world, "pulls")
    for _ in range(5):
        puller.turn()
    assert "poison" not in puller.got
    assert world.stored(f"%DLQ%{GROUP}", 1) == [[]]
    assert world.position(GROUP, TOPIC, 0) == 0
    world.disturb(faults)
    fill(world, ROOM)
    puller.offset = world.position(GROUP, TOPIC, 0)
    for _ in range(8):
        puller.turn()
        world.clock.run_for(1_000)
    assert set(puller.got) == {"next", "last"}
    assert bodies(world.stored(f"%DLQ%{GROUP}", 1)[0]) == ["poison"]
    assert world.position(GROUP, TOPIC, 0) == 3


@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
def test_a_member_that_receives_gets_what_is_behind_it_where_order_allows(ordered: bool) -> None:
    world, _ = worn(252, ordered)
    popper = Consumer(world, "pops2", GROUP, TOPIC)
    got: list[str] = []
    for _ in range(4):
        found = popper.pop(wait_ms=1_000, invisible_ms=LEASE_MS, order=ordered)
        got += [one.body for one in found]
        assert [popper.ack(one) for one in found] == [0] * len(found)
    assert "poison" not in got
    fill(world, ROOM)
    for _ in range(8):
        found = popper.pop(wait_ms=1_000, invisible_ms=LEASE_MS, order=ordered)
        got += [one.body for one in found]
        assert [popper.ack(one) for one in found] == [0] * len(found)
    assert got == ["next", "last"]
    assert bodies(world.stored(f"%DLQ%{GROUP}", 1)[0]) == ["poison"]
    assert world.position(GROUP, TOPIC, 0) == 3


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_a_lite_topic_stands_still_until_its_dead_letter_is_written(faults: str) -> None:
    world = up(253, {}, {})
    client = Subscriber(world, "c")
    maker = Tool(world, "tool")
    maker.group(LITE_GROUP, retryMaxTimes=1, attributes={"lite.bind.topic": PARENT})
    client.has("stuck", "free")
    client.send("stuck", "poison")
    for _ in range(2):
        assert client.take() == ["poison"]
        world.clock.run_for(10_500)
        client.has("stuck", "free")
    for name in ("stuck", "free"):
        client.send(name, f"next in {name}")
    fill(world, FULL)
    refused = client.ask(Send(1, [Message(PARENT, b"more", b"__LITE_TOPIC\x01free\x02")]))
    assert [type(event).__name__ for event in refused] == ["Refused"]
    client.has("stuck", "free")
    assert client.take("free") == ["next in free"], "the other one goes on, and nothing overtakes in this one"
    assert client.take() == []
    if faults != "none":
        world.again(power=faults == "power")
        client = Subscriber(world, "c")
    fill(world, ROOM)
    client.has("stuck", "free")
    got: list[str] = []
    for _ in range(6):
        got += client.take("stuck")
        world.clock.run_for(4_000)
        client.has("stuck", "free")
    assert got == ["next in stuck"]
    assert bodies(world.stored(f"%DLQ%{LITE_GROUP}", 1)[0]) == ["poison"]


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_giving_up_by_hand_is_refused_until_there_is_room(faults: str) -> None:
    """A send-back with no attempts left, and a forward over gRPC: the client is refused and tries again."""
    world = World.started(254)
    Tool(world, "tool").topic(TOPIC, 1)
    for text in (b"sent back", b"forwarded"):
        Sender(world, "p").send(TOPIC, text, 0)
    consumer, receiver = Consumer(world, "c", GROUP, TOPIC), Receiver(world, "r", "receivers", TOPIC)
    record, _ = consumer.drain(0)
    _, message = receiver.receive(invisible_ms=3_600_000)
    fill(world, FULL)
    assert consumer.give_back(record, level=-1) != 0
    assert forward(receiver, message) != pb.OK
    assert receiver.receive() == [], "it is leased as before"
    world.disturb(faults)
    fill(world, ROOM)
    assert consumer.give_back(record, level=-1) == 0
    assert forward(receiver, message) == pb.OK
    world.disturb(faults)
    assert bodies(world.stored(f"%DLQ%{GROUP}", 1)[0]) == ["sent back"]
    assert bodies(world.stored("%DLQ%receivers", 1)[0]) == ["forwarded"]


def forward(receiver: Receiver, message: pb.Message) -> int:
    """Call ForwardMessageToDeadLetterQueue. Returns the code of the answer."""
    system = message.system_properties
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        receipt_handle=system.receipt_handle, message_id=system.message_id, delivery_attempt=1, max_delivery_attempts=1
    )
    request.group.name, request.topic.name = receiver.group, receiver.topic
    answer = receiver.call("ForwardMessageToDeadLetterQueue", request, pb.ForwardMessageToDeadLetterQueueResponse)
    return int(answer.status.code)
