"""POP long polls on a whole node, batch acknowledgement, forwarding to dead letters, and groups that begin at a time."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import pytest

from domain.message import property as properties
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer, Popped
from tests.simulation.sender import Sender
from tests.simulation.simple import Publisher, Receiver, said
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "sim-polls"
INVISIBLE_MS = 10_000


def ready(seed: int, queues: int = 1) -> tuple[World, Tool, Sender]:
    """A node with the topic."""
    world = World.started(seed)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, queues)
    return world, tool, Sender(world, "p")


def notice(consumer: Consumer, wait_ms: int, order: bool = False, attempt: str = "") -> dict[str, str]:
    """Fields of a request with code 200054, as Apache's proxy sends it."""
    return {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "pollTime": str(wait_ms),
        "bornTime": str(consumer.clock.wall_ms()), "order": "true" if order else "false", "attemptId": attempt,
    }  # fmt: skip


def there(consumer: Consumer, order: bool = False, attempt: str = "") -> bool:
    """Whether the group has a message to receive now."""
    answer = consumer.call(codes.NOTIFICATION, notice(consumer, 0, order, attempt))
    assert answer.code == 0, answer.remark
    return (answer.fields() or {})["hasMsg"] == "true"


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
@pytest.mark.parametrize("seed", range(3))
def test_a_group_is_told_of_messages_exactly_when_a_receive_would_find_some(seed: int, faults: str) -> None:
    """With sends, receives, settlements, returns and expired leases; a restarted node still has the leases."""
    world, _, sender = ready(seed, queues=2)
    consumer, other = Consumer(world, "c", GROUP, TOPIC), Consumer(world, "o", GROUP, TOPIC)
    held: list[Popped] = []
    said: set[bool] = set()
    for turn in range(40):
        act = world.chance.randrange(5)
        if act == 0:
            sender.send(TOPIC, b"%d" % turn, queue=turn % 2)
        elif act == 1:
            world.clock.run_for(world.chance.choice((100, INVISIBLE_MS + 200)))
        elif held and act == 2:
            other.change(held.pop(), 0)
        elif held and act == 3:
            other.ack(held.pop())
        if faults != "none" and turn % 9 == 8:
            world.again(power=faults == "power")
        told = there(consumer)
        said.add(told)
        found = other.pop(most=world.chance.randrange(1, 4), invisible_ms=INVISIBLE_MS)
        assert bool(found) is told, turn
        held += found
    assert said == {True, False}


@pytest.mark.parametrize("faults", ["none", "kill"])
def test_who_waits_for_messages_hears_of_a_lease_that_ends_and_in_order_of_what_is_settled(faults: str) -> None:
    world, _, sender = ready(134)
    consumer, other = Consumer(world, "c", GROUP, TOPIC), Consumer(world, "o", GROUP, TOPIC)
    sender.send(TOPIC, b"one", __SHARDINGKEY="k")
    sender.send(TOPIC, b"two", __SHARDINGKEY="k")
    (first,) = other.pop(most=1, invisible_ms=INVISIBLE_MS, order=True, attempt="mine")
    if faults == "kill":
        world.again()
    assert there(consumer, order=True, attempt="mine"), "who repeats its attempt gets the same again"
    assert not there(consumer, order=True, attempt="other")
    opaque = consumer.post(codes.NOTIFICATION, notice(consumer, 30_000, order=True))
    world.clock.run_for(2_000)
    assert consumer.answer(opaque) is None
    assert other.ack(first) == 0
    world.clock.run_for(200)
    answer = consumer.answer(opaque)
    assert answer is not None
    assert (answer.fields() or {})["hasMsg"] == "true"
    (second,) = other.pop(most=1, invisible_ms=INVISIBLE_MS, order=True)
    assert second.body == "two"
    opaque = consumer.post(codes.NOTIFICATION, notice(consumer, 30_000, order=True))
    world.clock.run_for(INVISIBLE_MS - 500)
    assert consumer.answer(opaque) is None
    world.clock.run_for(1_500)
    answer = consumer.answer(opaque)
    assert answer is not None
    assert (answer.fields() or {})["hasMsg"] == "true"


def acks(found: Sequence[Popped]) -> bytes:
    """BatchAckMessageRequestBody of these: one BatchAck for each queue and POP time, offsets as bits from the first one."""
    lists: dict[tuple[str, ...], list[int]] = {}
    for one in found:
        start, pop_ms, invisible_ms, revive, retry, _, queue, offset = one.receipt.split()
        lists.setdefault((start, pop_ms, invisible_ms, revive, retry, queue), []).append(int(offset) - int(start))
    made = []
    for (start, pop_ms, invisible_ms, revive, retry, queue), bits in lists.items():
        value = sum(1 << bit for bit in bits)
        data = value.to_bytes((value.bit_length() + 7) // 8, "little")
        made.append({
            "c": GROUP, "t": TOPIC, "r": retry, "so": int(start), "q": int(queue), "rq": int(revive), "pt": int(pop_ms),
            "it": int(invisible_ms), "b": base64.b64encode(data).decode(),
        })  # fmt: skip
    return json.dumps({"brokerName": "broker-a", "acks": made}).encode()


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_many_are_settled_by_one_request_and_exactly_those(faults: str) -> None:
    """Code 200151."""
    world, _, sender = ready(133, queues=3)
    for number in range(60):
        sender.send(TOPIC, b"%d" % number, queue=number % 3)
    consumer = Consumer(world, "c", GROUP, TOPIC)
    found: list[Popped] = []
    while len(found) < 60:
        found += consumer.pop(invisible_ms=INVISIBLE_MS)
    kept = [one for one in found if int(one.body) % 7 == 0]
    assert consumer.call(codes.BATCH_ACK, {}, acks([one for one in found if one not in kept])).code == codes.SUCCESS
    world.disturb(faults)
    world.clock.run_for(INVISIBLE_MS + 1_000)
    again: list[Popped] = []
    while more := consumer.pop(invisible_ms=INVISIBLE_MS):
        again += more
    assert sorted(int(one.body) for one in again) == list(range(0, 60, 7))
    assert consumer.call(codes.BATCH_ACK, {}, acks(again)).code == codes.SUCCESS
    world.clock.run_for(INVISIBLE_MS + 1_000)
    assert consumer.pop() == []


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_a_message_is_forwarded_to_the_dead_letters_over_grpc_once_and_comes_no_more(faults: str) -> None:
    """ForwardMessageToDeadLetterQueue: what a push consumer does with a message of an ordered group that it gives up."""
    world, tool, _ = ready(134)
    tool.group(GROUP, retryMaxTimes=3)
    Publisher(world, "publisher", TOPIC).send("poison", tag="t", colour="red")
    receiver = Receiver(world, "receiver", GROUP, TOPIC)
    (message,) = receiver.receive(invisible_ms=INVISIBLE_MS)
    system = message.system_properties
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        receipt_handle=system.receipt_handle, message_id=system.message_id, delivery_attempt=1, max_delivery_attempts=3
    )
    request.group.name, request.topic.name = GROUP, TOPIC

    def forward() -> int:
        told = receiver.call("ForwardMessageToDeadLetterQueue", request, pb.ForwardMessageToDeadLetterQueueResponse)
        return int(told.status.code)

    assert forward() == pb.OK
    world.disturb(faults)
    assert forward() == pb.OK, "who repeats it learns that it is done"
    world.clock.run_for(2 * INVISIBLE_MS)
    assert said(receiver.receive()) == []
    (letter,) = Consumer(world, "reader", "readers", TOPIC).drain(0, topic=f"%DLQ%{GROUP}")
    assert bodies([letter]) == ["poison"]
    told = properties.decode(letter.properties)
    assert (told["colour"], told["TAGS"], told["DLQ_ORIGIN_TOPIC"]) == ("red", "t", TOPIC)
