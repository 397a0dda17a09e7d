"""An orderly group through grpcio: a repeated attempt gets the same messages again, also from a node that was killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.grpc.test_stub import METADATA, SERVICE, method
from tests.interop.node import Node

pytestmark = pytest.mark.interop
GROUP = pb.Resource(name="ordered")
TOPIC = pb.Resource(name="Ordered")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        make_topic(running, TOPIC.name, "FIFO")
        make_group(running, GROUP.name, orderly=True)
        yield running


def opened(node: Node) -> grpc.Channel:
    return grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}")


def send(channel: grpc.Channel, body: bytes, message_group: str) -> None:
    message = pb.Message(topic=TOPIC, body=body)
    message.system_properties.message_id = f"ID-{message_group}-{body.decode()}"
    message.system_properties.message_group = message_group
    message.system_properties.message_type = pb.FIFO
    answer = method(channel, "SendMessage", pb.SendMessageResponse)(pb.SendMessageRequest(messages=[message]))
    assert answer.status.code == pb.OK, answer


def attempt(channel: grpc.Channel, name: str, most: int) -> list[pb.Message]:
    request = pb.ReceiveMessageRequest(batch_size=most, attempt_id=name, group=GROUP)
    request.filter_expression.type = pb.TAG
    request.filter_expression.expression = "*"
    request.message_queue.topic.CopyFrom(TOPIC)
    request.invisible_duration.seconds = 60
    request.long_polling_timeout.nanos = 500_000_000
    call = channel.unary_stream(
        SERVICE + "ReceiveMessage",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=pb.ReceiveMessageResponse.FromString,
    )
    parts = call(request, metadata=METADATA, timeout=20)
    return [part.message for part in parts if part.WhichOneof("content") == "message"]


def bodies(messages: list[pb.Message]) -> list[bytes]:
    return [message.body for message in messages]


def acknowledge(channel: grpc.Channel, messages: list[pb.Message]) -> list[int]:
    request = pb.AckMessageRequest(group=GROUP, topic=TOPIC)
    for message in messages:
        request.entries.add(
            message_id=message.system_properties.message_id, receipt_handle=message.system_properties.receipt_handle
        )
    answer = method(channel, "AckMessage", pb.AckMessageResponse)(request)
    return [entry.status.code for entry in answer.entries]


def test_a_repeated_attempt_gets_the_same_and_nobody_else_what_follows(node: Node) -> None:
    with opened(node) as channel:
        for number in range(3):
            send(channel, b"%d" % number, "A")
        first = attempt(channel, "one", 2)
        assert bodies(first) == [b"0", b"1"]
        again = attempt(channel, "one", 2)
        assert bodies(again) == [b"0", b"1"], "its answer may have been lost"
        assert [each.system_properties.delivery_attempt for each in again] == [1, 1]
        assert attempt(channel, "two", 2) == []
        assert acknowledge(channel, first) == [pb.INVALID_RECEIPT_HANDLE] * 2, "it is the answer that came which counts"
    node.kill()
    node.start()
    with opened(node) as channel:
        assert attempt(channel, "two", 2) == []
        latest = attempt(channel, "one", 2)
        assert bodies(latest) == [b"0", b"1"]
        assert acknowledge(channel, latest) == [pb.OK, pb.OK]
        assert bodies(attempt(channel, "two", 2)) == [b"2"]


def test_a_message_group_that_waits_holds_back_no_other(node: Node) -> None:
    with opened(node) as channel:
        for number in range(4):
            for name in ("A", "B", "C"):
                send(channel, name.encode() + b"%d" % number, name)
        stuck = attempt(channel, "slow", 1)
        message_group = stuck[0].body[:1]
        seen: list[bytes] = []
        for turn in range(40):
            found = attempt(channel, f"turn{turn}", 4)
            seen += bodies(found)
            if found:
                assert set(acknowledge(channel, found)) == {pb.OK}
            if len(seen) == 8:
                break
        assert not [body for body in seen if body.startswith(message_group)]
        for other in {b"A", b"B", b"C"} - {message_group}:
            assert [body for body in seen if body.startswith(other)] == [other + b"%d" % number for number in range(4)]
        assert acknowledge(channel, stuck) == [pb.OK]
        assert bodies(attempt(channel, "last", 4)) == [message_group + b"%d" % number for number in range(1, 4)]
