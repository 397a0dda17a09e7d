"""One gRPC peer floods, names thousands of things in one request, inflates, and never ends; the neighbours are answered.

Every exchange of a `GrpcPeer` checks the turns that it takes.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

import pytest

from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.message.receipt import Receipt
from domain.topic import attribute
from domain.topic.topic import Group, Topic
from protocols.grpc.messages import messaging_pb2 as pb
from tests.neighbours.grpc_peer import GrpcPeer, Operator, framed
from tests.neighbours.node import SharedNode

ZEROS = bytes(4 * 1024 * 1024)
GZIP, ZLIB = gzip.compress(ZEROS), zlib.compress(ZEROS)


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as made:
        yield made


def settings(
    subscriptions: int, expression: str = "", kind: pb.ClientType = pb.PUSH_CONSUMER, topic: str = ""
) -> pb.TelemetryCommand:
    command = pb.TelemetryCommand()
    command.settings.client_type = kind
    command.settings.subscription.group.name = "other"
    for number in range(subscriptions):
        entry = command.settings.subscription.subscriptions.add()
        entry.topic.name = topic or f"t{number}"
        entry.expression.type = pb.SQL if expression else pb.TAG
        entry.expression.expression = f"{expression} a = {number}" if expression else "*"
    return command


def producer(topics: int) -> pb.TelemetryCommand:
    command = pb.TelemetryCommand()
    command.settings.client_type = pb.PRODUCER
    for number in range(topics):
        command.settings.publishing.topics.add(name=f"t{number}")
    return command


def batch(count: int, body: bytes = b"x", topic: str = "flood", keys: int = 0, properties: int = 0) -> pb.SendMessageRequest:
    request = pb.SendMessageRequest()
    for number in range(count):
        sent = request.messages.add(body=body)
        sent.topic.name = topic
        sent.system_properties.message_id = f"{number:032x}"
        sent.system_properties.keys.extend(["k"] * keys)
        if body in (GZIP, ZLIB):
            sent.system_properties.body_encoding = pb.GZIP
        for each in range(properties):
            sent.user_properties[f"k{each}"] = "v"
    return request


def poll(topic: str = "flood", expression: str = "*", group: str = "other") -> pb.ReceiveMessageRequest:
    request = pb.ReceiveMessageRequest(batch_size=32)
    request.group.name = group
    request.message_queue.topic.name = topic
    request.invisible_duration.seconds = 30
    request.long_polling_timeout.seconds = 5
    request.filter_expression.type = pb.TAG if expression == "*" else pb.SQL
    request.filter_expression.expression = expression
    return request


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        (settings(1_024), settings(1_025)),
        (settings(64, "a > 1 AND"), settings(129, "a > 1 AND")),
        (settings(1, "a > 1 AND " * 200), settings(1, "a > 1 AND " * 820)),
        (producer(2_048), producer(2_049)),
    ],
    ids=["subscriptions", "expressions", "characters", "topics"],
)
def test_settings_are_bounded(node: SharedNode, fits: pb.TelemetryCommand, too_much: pb.TelemetryCommand) -> None:
    peer = GrpcPeer(node)
    refused = peer.open("Telemetry")
    peer.send(refused, framed(too_much))
    peer.exchange()
    assert peer.status == {refused: 3}
    taken = peer.open("Telemetry")
    peer.send(taken, framed(fits))
    peer.exchange(10)
    assert taken not in peer.status
    assert peer.data[taken]


def test_settings_of_nested_thousands_are_refused_before_they_are_read(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    body = b"\x12\x80\x80\xc0\x01" + b"\x12\0" * (3 * 1024 * 1024 // 2)  # settings of 3 MiB: 1.5 million empty fields
    stream = peer.open("Telemetry")
    peer.send(stream, b"\0" + len(body).to_bytes(4, "big") + body)
    peer.exchange(10)
    assert peer.status == {stream: 3}


def test_stacks_of_a_client_may_be_large(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    command = pb.TelemetryCommand()
    command.thread_stack_trace.nonce = "1"
    command.thread_stack_trace.thread_stack_trace = "at java.lang.Thread.run\n" * 100_000
    stream = peer.open("Telemetry")
    peer.send(stream, framed(command))
    peer.exchange(10)
    assert stream not in peer.status


@pytest.mark.parametrize("message", [framed(settings(0)), b"\0\0\0\0\0"], ids=["settings", "empty"])
def test_messages_of_a_stream_wait_for_their_turns_and_slow_who_sends_them(node: SharedNode, message: bytes) -> None:
    peer = GrpcPeer(node)
    stream = peer.open("Telemetry")
    peer.send(stream, message * 2_000)
    for _ in range(60):
        peer.exchange(4)
    assert stream not in peer.status
    assert peer.data.get(stream, b"").count(b"other") == (2_000 if len(message) > 5 else 0)


def test_heartbeats_of_a_client_with_many_subscriptions_wait_for_their_turns(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    peer.send(peer.open("Telemetry"), framed(settings(1_000)))
    peer.exchange(10)
    calls = [peer.call("Heartbeat", pb.HeartbeatRequest(), wait=False) for _ in range(60)]
    peer.exchange(300)
    assert [peer.status.get(stream) for stream in calls] == [0] * 60


def test_messages_of_a_batch_are_counted_before_they_are_read(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    assert peer.code(peer.call("SendMessage", batch(20_000))) == pb.BAD_REQUEST
    assert peer.code(peer.call("SendMessage", batch(513))) == pb.BAD_REQUEST
    assert peer.code(peer.call("SendMessage", batch(512, properties=8))) == pb.OK


def test_batches_that_end_together_wait_for_their_turns(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    data = framed(batch(300))
    streams = [peer.open("SendMessage") for _ in range(30)]
    for stream in streams:
        peer.send(stream, data[:-1])
    for stream in streams:
        peer.send(stream, data[-1:], end=True)
    for _ in range(60):
        peer.exchange(5)
    assert [peer.status.get(stream) for stream in streams] == [0] * 30


def test_keys_of_a_batch_are_bounded(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    assert peer.code(peer.call("SendMessage", batch(20, keys=8_000))) == pb.MESSAGE_PROPERTIES_TOO_LARGE
    assert peer.code(peer.call("SendMessage", batch(1, keys=100_000))) == pb.MESSAGE_PROPERTIES_TOO_LARGE
    assert peer.code(peer.call("SendMessage", batch(2, keys=8_000))) == pb.OK


def test_entries_of_an_acknowledgement_are_counted_before_they_are_read(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    request = pb.AckMessageRequest()
    request.group.name = request.topic.name = "other"
    for number in range(20_000):
        request.entries.add(message_id="m", receipt_handle=f"h{number}")
    assert peer.code(peer.call("AckMessage", request)) == pb.BAD_REQUEST
    del request.entries[500:]
    assert peer.code(peer.call("AckMessage", request)) == pb.INVALID_RECEIPT_HANDLE


def test_an_acknowledgement_in_many_queues_is_carried_out_over_many_turns(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    request = pb.AckMessageRequest()
    request.group.name = request.topic.name = "other"
    for number in range(500):
        handle = Receipt(number, node.clock.wall_ms() + 1_000, 600_000, 0, 0, "b", 0, number, 0).text()
        request.entries.add(message_id="m", receipt_handle=handle, lite_topic=f"l{number}")
    stream = peer.call("AckMessage", request)
    assert peer.data[stream].count(b"\x0a\x01m") == 500


def test_lite_topics_of_one_request_are_bounded_and_added_over_many_turns(node: SharedNode) -> None:
    operator = Operator(node)
    operator.ask(PutTopic(1, Topic("parent", 1, 1, type="LITE")))
    operator.ask(PutGroup(2, Group("other", attributes={attribute.BIND_TOPIC: "parent", attribute.CLIENT_QUOTA: "-1"})))
    peer = GrpcPeer(node)
    peer.send(peer.open("Telemetry"), framed(settings(1, kind=pb.LITE_PUSH_CONSUMER, topic="parent")))
    peer.exchange(10)
    request = pb.SyncLiteSubscriptionRequest()
    request.topic.name, request.group.name = "parent", "other"
    request.lite_topic_set.extend([f"l{number}" for number in range(20_000)])
    assert peer.code(peer.call("SyncLiteSubscription", request)) == pb.BAD_REQUEST
    del request.lite_topic_set[3_000:]
    for action in (pb.COMPLETE_ADD, pb.PARTIAL_REMOVE, pb.PARTIAL_ADD):
        request.action = action
        if action == pb.PARTIAL_ADD:
            request.offset_option.policy = pb.OffsetOption.MIN
        stream = peer.call("SyncLiteSubscription", request, turns=10)
        assert peer.code(stream) == pb.OK


def test_inflated_requests_are_inflated_one_at_a_time(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    message = gzip.compress(batch(1, ZEROS).SerializeToString())
    data = b"\1" + len(message).to_bytes(4, "big") + message
    streams = [peer.open("SendMessage", ("grpc-encoding", "gzip")) for _ in range(40)]
    for stream in streams:
        peer.send(stream, data)
    peer.exchange(10)
    assert node.load.grown_bytes < 8 * len(ZEROS)
    for stream in streams[:20]:
        peer.send(stream, b"", end=True)
    for _ in range(60):
        peer.exchange(4)
    assert [peer.status.get(stream) for stream in streams[:20]] == [0] * 20


@pytest.mark.parametrize("body", [GZIP, ZLIB], ids=["gzip", "zlib"])
def test_inflated_bodies_are_inflated_one_at_a_time(node: SharedNode, body: bytes) -> None:
    peer = GrpcPeer(node)
    streams = [peer.call("SendMessage", batch(1, body, "zeros"), wait=False) for _ in range(20)]
    for _ in range(60):
        peer.exchange(4)
    assert [peer.status.get(stream) for stream in streams] == [0] * 20


@pytest.mark.parametrize("body", [GZIP, ZLIB], ids=["gzip", "zlib"])
def test_bodies_of_a_batch_are_bounded_inflated(node: SharedNode, body: bytes) -> None:
    peer = GrpcPeer(node)
    assert peer.code(peer.call("SendMessage", batch(500, body, "zeros"))) == pb.PAYLOAD_TOO_LARGE
    assert peer.code(peer.call("SendMessage", batch(1, body, "zeros"))) == pb.OK


def test_answers_are_inflated_one_at_a_time_and_bounded(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    for _ in range(40):
        peer.call("SendMessage", batch(1, ZLIB, "zeros"))
    peer.send(peer.open("Telemetry"), framed(settings(1, topic="zeros")))
    peer.exchange(10)
    calls = [peer.call("ReceiveMessage", poll("zeros"), wait=False) for _ in range(40)]
    for _ in range(20):
        peer.exchange(10)
    assert any(peer.data.get(stream) for stream in calls)
    refused = [stream for stream in calls if peer.status.get(stream) == 0 and len(peer.data[stream]) < 1_000]
    assert {peer.code(stream) for stream in refused} == {pb.TOO_MANY_REQUESTS}


def test_many_polls_at_once_are_answered_over_many_turns(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    for _ in range(5):
        peer.call("SendMessage", batch(500, properties=10))
    peer.send(peer.open("Telemetry"), framed(settings(1, topic="flood")))
    peer.exchange(10)
    calls = [peer.call("ReceiveMessage", poll(), wait=False) for _ in range(60)]
    for _ in range(60):
        peer.exchange(5)
    assert [peer.status.get(stream) for stream in calls] == [0] * 60


@pytest.mark.parametrize("expression", ["a > 100", "a > 1 AND " * 200 + "a > 100"], ids=["short", "long"])
def test_dear_filters_look_through_a_backlog_over_many_turns(node: SharedNode, expression: str) -> None:
    peer = GrpcPeer(node)
    for _ in range(4):
        peer.call("SendMessage", batch(500, properties=1))
    peer.send(peer.open("Telemetry"), framed(settings(1, topic="flood")))
    peer.exchange(10)
    groups = range(1 if len(expression) > 100 else 5)
    calls = [peer.call("ReceiveMessage", poll(expression=expression, group=f"g{each}"), wait=False) for each in groups]
    for _ in range(20):
        peer.exchange(4)
    assert all(stream not in peer.status for stream in calls), "they go on waiting"


def test_routes_of_many_queues_are_encoded_over_many_turns_and_bounded_with_their_endpoints(node: SharedNode) -> None:
    Operator(node).ask(PutTopic(1, Topic("wide", 8_000, 8_000)))
    peer = GrpcPeer(node)
    request = pb.QueryRouteRequest()
    request.topic.name = "wide"
    calls = [peer.call("QueryRoute", request, wait=False) for _ in range(10)]
    for _ in range(20):
        peer.exchange(10)
    assert [peer.data[stream][:1] for stream in calls[:4]] == [b"\0"] * 4
    request.endpoints.scheme = pb.IPv4
    for number in range(200):
        request.endpoints.addresses.add(host=f"10.0.0.{number}", port=8_081)
    assert peer.code(peer.call("QueryRoute", request)) == pb.PAYLOAD_TOO_LARGE
    for number in range(1_000):
        request.endpoints.addresses.add(host=f"10.0.0.{number % 256}", port=8_081)
    assert peer.code(peer.call("QueryRoute", request)) == pb.BAD_REQUEST


def test_requests_without_an_end_share_one_bound(node: SharedNode) -> None:
    peers = [GrpcPeer(node, f"c{number}") for number in range(4)]
    for peer in peers:
        for stream in [peer.open("SendMessage") for _ in range(60)]:
            peer.send(stream, b"\0\0\x40\0\0" + bytes(60_000))
        peer.exchange()
    for _ in range(5):
        node.run(10).check()


def test_texts_of_refusals_are_short(node: SharedNode) -> None:
    peer = GrpcPeer(node)
    request = pb.QueryRouteRequest()
    request.topic.name = "ä" * 200_000
    stream = peer.call("QueryRoute", request)
    assert peer.code(stream) == pb.ILLEGAL_TOPIC
    assert len(peer.data[stream]) < 3_000


def test_one_host_with_many_connections_leaves_others_their_turns(node: SharedNode) -> None:
    peers = [GrpcPeer(node, f"c{number}") for number in range(40)]
    request = pb.HeartbeatRequest()
    for peer in peers:
        for _ in range(40):
            stream = peer.open("Heartbeat")
            peer.send(stream, framed(request), end=True)
        peer.stream.send(peer.take_output())
    node.run(40).check()


@pytest.mark.parametrize("size", [1, 5, 9])
def test_a_call_that_arrives_in_small_pieces(node: SharedNode, size: int) -> None:
    peer = GrpcPeer(node)
    data = framed(batch(3))
    stream = peer.open("SendMessage")
    for at in range(0, len(data), size):
        peer.send(stream, data[at : at + size])
    peer.send(stream, b"", end=True)
    peer.exchange(20)
    assert peer.code(stream) == pb.OK
