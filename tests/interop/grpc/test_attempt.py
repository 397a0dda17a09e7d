"""A plain group through grpcio: a repeated receive gets its messages again, and no delivery is counted."""

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
GROUP = pb.Resource(name="plain")
TOPIC = pb.Resource(name="Plain")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        make_topic(running, TOPIC.name, "NORMAL")
        make_group(running, GROUP.name, orderly=False)
        yield running


def opened(node: Node) -> grpc.Channel:
    return grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}")


def send(channel: grpc.Channel, body: bytes) -> None:
    message = pb.Message(topic=TOPIC, body=body)
    message.system_properties.message_id = f"ID-{body.decode()}"
    message.system_properties.message_type = pb.NORMAL
    answer = method(channel, "SendMessage", pb.SendMessageResponse)(pb.SendMessageRequest(messages=[message]))
    assert answer.status.code == pb.OK, answer


def attempt(channel: grpc.Channel, name: str, most: int) -> list[pb.Message]:
    request = pb.ReceiveMessageRequest(batch_size=most, attempt_id=name, group=GROUP)
    request.filter_expression.type = pb.TAG
    request.filter_expression.expression = "*"
    request.message_queue.topic.CopyFrom(TOPIC)
    request.message_queue.id = -1
    request.invisible_duration.seconds = 60
    request.long_polling_timeout.nanos = 500_000_000
    call = channel.unary_stream(
        SERVICE + "ReceiveMessage",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=pb.ReceiveMessageResponse.FromString,
    )
    parts = call(request, metadata=METADATA, timeout=20)
    return [part.message for part in parts if part.WhichOneof("content") == "message"]


def test_a_repeated_attempt_gets_the_same_messages_also_from_a_node_that_was_killed(node: Node) -> None:
    with opened(node) as channel:
        for number in range(6):
            send(channel, b"%d" % number)
        first = sorted(message.body for message in attempt(channel, "one", 4))
        assert len(first) == 4
        again = attempt(channel, "one", 4)
        assert sorted(message.body for message in again) == first
        assert {message.system_properties.delivery_attempt for message in again} == {1}
    node.kill()
    node.start()
    with opened(node) as channel:
        latest = attempt(channel, "one", 4)
        assert sorted(message.body for message in latest) == first
        assert {message.system_properties.delivery_attempt for message in latest} == {1}
        others = attempt(channel, "two", 4)
        assert len({message.body for message in others} | set(first)) == 6
