"""All calls through grpcio, method by method, against a node: cases that SDKs do not produce."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.node import Node

SERVICE = "/apache.rocketmq.v2.MessagingService/"
METADATA = (("x-mq-client-id", "stub-1"), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.1.2"))


@pytest.fixture(scope="module", params=["", "1"], ids=["default", "pure"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node as it is built here, and one without compiled modules: the other HTTP/2 engine."""
    with Node(tmp_path_factory.mktemp("node"), environment={"HEADGATE_PURE": request.param}) as running:
        yield running


def method(channel: grpc.Channel, name: str, answer: Any) -> Callable[..., Any]:
    """A unary method."""
    raw = channel.unary_unary(
        SERVICE + name, request_serializer=lambda message: message.SerializeToString(), response_deserializer=answer.FromString
    )
    return lambda request, timeout=10.0: raw(request, metadata=METADATA, timeout=timeout)


@dataclass(frozen=True)
class Stub:
    """Calls over a channel, for one topic and group."""

    channel: grpc.Channel
    topic: str
    group: str

    def send(self, body: bytes, message_id: str, **user: str) -> pb.SendMessageResponse:
        message = pb.Message(body=body, user_properties=user)
        message.topic.name = self.topic
        message.system_properties.message_id = message_id
        answer: pb.SendMessageResponse = method(self.channel, "SendMessage", pb.SendMessageResponse)(
            pb.SendMessageRequest(messages=[message])
        )
        return answer

    def receive(self, wait_s: int = 5, invisible_s: int = 10, sql: str = "") -> list[pb.ReceiveMessageResponse]:
        request = pb.ReceiveMessageRequest(batch_size=32)
        if sql:
            request.filter_expression.type = pb.SQL
            request.filter_expression.expression = sql
        request.group.name = self.group
        request.message_queue.topic.name = self.topic
        request.invisible_duration.seconds = invisible_s
        request.long_polling_timeout.seconds = wait_s
        call = self.channel.unary_stream(
            SERVICE + "ReceiveMessage",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=pb.ReceiveMessageResponse.FromString,
        )
        return list(call(request, metadata=METADATA, timeout=wait_s + 5))


@pytest.fixture
def stub(request: pytest.FixtureRequest, node: Node) -> Iterator[Stub]:
    """Without TLS; topic and group of the test alone."""
    name = request.function.__name__
    with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}") as channel:
        yield Stub(channel, name, f"{name}-group")


def test_long_poll_ends_when_a_message_arrives(stub: Stub) -> None:
    assert stub.send(b"first", "ID0").status.code == pb.OK
    stub.receive()
    found: list[list[pb.ReceiveMessageResponse]] = []

    def poll() -> None:
        found.append(stub.receive(wait_s=60))

    thread = threading.Thread(target=poll)
    thread.start()
    time.sleep(0.5)
    assert stub.send(b"late", "ID1").status.code == pb.OK
    thread.join(20)
    (answer,) = found
    assert answer[1].message.body == b"late"


def test_largest_body_goes_in_and_out_and_a_larger_one_is_refused(stub: Stub, node: Node) -> None:
    body = bytes(range(256)) * 16_384
    assert stub.send(body, "ID1").status.code == pb.OK
    assert stub.send(body + b"x", "ID2").status.code == pb.MESSAGE_BODY_TOO_LARGE
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}", options=options) as wide:
        answer = Stub(wide, stub.topic, stub.group).receive()
    assert answer[1].message.body == body


def test_nack_redelivers_and_the_dead_letter_queue_takes(stub: Stub) -> None:
    assert stub.send(b"poison", "ID1").status.code == pb.OK
    handle = stub.receive()[1].message.system_properties.receipt_handle
    group, topic = pb.Resource(name=stub.group), pb.Resource(name=stub.topic)
    change = pb.ChangeInvisibleDurationRequest(group=group, topic=topic, receipt_handle=handle)
    answer = method(stub.channel, "ChangeInvisibleDuration", pb.ChangeInvisibleDurationResponse)(change)
    assert answer.status.code == pb.OK
    again = stub.receive()[1].message
    assert (again.body, again.system_properties.delivery_attempt) == (b"poison", 2)
    late = method(stub.channel, "ChangeInvisibleDuration", pb.ChangeInvisibleDurationResponse)(change)
    assert late.status.code == pb.INVALID_RECEIPT_HANDLE
    receipt = again.system_properties.receipt_handle
    forward = pb.ForwardMessageToDeadLetterQueueRequest(group=group, topic=topic, receipt_handle=receipt, message_id="ID1")
    bury = method(stub.channel, "ForwardMessageToDeadLetterQueue", pb.ForwardMessageToDeadLetterQueueResponse)
    assert bury(forward).status.code == pb.OK
    assert bury(forward).status.code == pb.OK
    route = method(stub.channel, "QueryRoute", pb.QueryRouteResponse)(
        pb.QueryRouteRequest(topic=pb.Resource(name=f"%DLQ%{stub.group}"))
    )
    assert route.status.code == pb.OK
    assert stub.receive()[0].status.code == pb.MESSAGE_NOT_FOUND


def test_sql92_filter_selects_by_property(stub: Stub) -> None:
    for at, colour in enumerate(("red", "blue", "red")):
        assert stub.send(b"%d" % at, f"ID{at}", colour=colour, size=str(at)).status.code == pb.OK
    found: set[bytes] = set()
    for _ in range(3):
        answer = stub.receive(sql="colour = 'red' AND size BETWEEN 0 AND 5")
        found |= {part.message.body for part in answer if part.WhichOneof("content") == "message"}
        if len(found) == 2:
            break
    assert found == {b"0", b"2"}


def test_what_is_not_served_says_so(stub: Stub) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        method(stub.channel, "GetOffset", pb.HeartbeatResponse)(pb.HeartbeatRequest())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_tls_and_plaintext_share_the_port(node: Node) -> None:
    address = ("127.0.0.1", node.port("grpc"))
    certificate = ssl.get_server_certificate(address)
    context = ssl.create_default_context(cadata=certificate)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(address, timeout=5) as plain, context.wrap_socket(plain) as secured:
        assert secured.selected_alpn_protocol() == "h2"


def test_bad_bytes_cost_their_sender_alone(stub: Stub, node: Node) -> None:
    assert stub.send(b"before", "ID1").status.code == pb.OK
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    for bad in (
        preface + settings + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
        preface + settings + b"\x00\x00\x05\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff\xff",
        preface + settings + (b"\x00\x00\x00\x09\x00\x00\x00\x00\x01" * 100),
        preface[:20] + b"garbage",
    ):
        with socket.create_connection(("127.0.0.1", node.port("grpc")), timeout=5) as hostile:
            hostile.sendall(bad)
            hostile.settimeout(3)
            while hostile.recv(65_536):
                pass
    assert stub.send(b"after", "ID2").status.code == pb.OK


def test_killed_node_has_what_it_acknowledged(stub: Stub, node: Node) -> None:
    for at in range(20):
        assert stub.send(b"body %d" % at, f"ID{at}").status.code == pb.OK
    node.kill()
    node.start()
    with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}") as channel:
        again = Stub(channel, stub.topic, stub.group)
        found: set[bytes] = set()
        for _ in range(8):
            found |= {part.message.body for part in again.receive() if part.WhichOneof("content") == "message"}
            if len(found) == 20:
                break
    assert found == {b"body %d" % at for at in range(20)}
