"""Heartbeats and termination of clients, and invalid calls."""

from __future__ import annotations

import gzip

import pytest

from domain.client.membership import Heartbeat, Leave
from domain.command import Send
from domain.event import Done
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.http2.engine import EngineFactory
from tests.protocols.grpc.stage import Stage, cut, message, prefixed, with_settings


def test_heartbeat_needs_settings_and_then_keeps_the_member(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.call("Heartbeat", pb.HeartbeatRequest())
    assert pb.HeartbeatResponse.FromString(stage.messages(stream)[0]).status.code == pb.UNRECOGNIZED_CLIENT_TYPE
    stage, _ = with_settings(engine)
    stream = stage.call("Heartbeat", pb.HeartbeatRequest(client_type=pb.SIMPLE_CONSUMER))
    command = stage.take(Heartbeat)
    assert command.consumers[0].group == "g"
    stage.give(Done(command.ticket))
    assert pb.HeartbeatResponse.FromString(stage.messages(stream)[0]).status.code == pb.OK


def test_termination_leaves_and_forgets(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    command = stage.take(Leave)
    assert (command.client_id, command.consumer_group) == ("client-1", "g")
    stage.give(Done(command.ticket))
    assert pb.NotifyClientTerminationResponse.FromString(stage.messages(stream)[0]).status.code == pb.OK
    again = stage.call("Heartbeat", pb.HeartbeatRequest())
    assert pb.HeartbeatResponse.FromString(stage.messages(again)[0]).status.code == pb.UNRECOGNIZED_CLIENT_TYPE


@pytest.mark.parametrize("name", ["SendMessage", "QueryRoute", "ReceiveMessage", "AckMessage", "Heartbeat"])
def test_client_without_an_id_is_told_so(engine: EngineFactory, name: str) -> None:
    stage = Stage(engine, client_id="")
    stream = stage.call(name, pb.SendMessageRequest(messages=[message()]))
    assert stage.commands == []
    assert pb.SendMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.CLIENT_ID_REQUIRED
    assert stage.grpc_status(stream) == (0, "")


def test_telemetry_without_an_id_is_told_so_and_ended(engine: EngineFactory) -> None:
    stage = Stage(engine, client_id="")
    stream = stage.open_telemetry()
    assert pb.TelemetryCommand.FromString(stage.messages(stream)[0]).status.code == pb.CLIENT_ID_REQUIRED
    assert stage.grpc_status(stream) == (0, "")


@pytest.mark.parametrize("name", ["PullMessage", "GetOffset", "Nonsense"])
def test_what_is_not_served_is_unimplemented(stage: Stage, name: str) -> None:
    stream = stage.call(name, pb.HeartbeatRequest())
    assert stage.grpc_status(stream)[0] == 12


def test_unknown_encoding_is_unimplemented_and_gzip_is_read(stage: Stage) -> None:
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[message()]), extra=[(b"grpc-encoding", b"snappy")])
    assert stage.grpc_status(stream)[0] == 12
    packed = gzip.compress(pb.SendMessageRequest(messages=[message()]).SerializeToString())
    body = b"\x01" + len(packed).to_bytes(4, "big") + packed
    stage.client.request(
        "/apache.rocketmq.v2.MessagingService/SendMessage", body, stage.headers(extra=[(b"grpc-encoding", b"gzip")])
    )
    stage.take(Send)


BROKEN: list[tuple[str, bytes, int]] = [
    ("nothing", b"", 13),
    ("half a prefix", b"\x00\x00", 13),
    ("half a message", b"\x00\x00\x00\x00\x09abc", 13),
    ("no protobuf", prefixed(b"\xff\xff\xff"), 13),
    ("two messages", prefixed(b"") + prefixed(b""), 3),
    ("lying length", b"\x00\xff\xff\xff\xff", 8),
    ("compressed without saying so", b"\x01\x00\x00\x00\x01x", 13),
    ("unknown flag", b"\x07\x00\x00\x00\x01x", 13),
]


@pytest.mark.parametrize(("body", "code"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_broken_framing_ends_the_call_alone(stage: Stage, body: bytes, code: int) -> None:
    stream = stage.client.request("/apache.rocketmq.v2.MessagingService/SendMessage", body, stage.headers())
    assert stage.commands == []
    assert stage.grpc_status(stream)[0] == code
    assert not stage.server.closed
    assert isinstance(stage.call("SendMessage", pb.SendMessageRequest(messages=[message()])), int)
    stage.take(Send)


def test_gzip_bomb_below_the_service_is_stopped(stage: Stage) -> None:
    packed = gzip.compress(bytes(64 * 1024 * 1024))
    body = b"\x01" + len(packed).to_bytes(4, "big") + packed
    stream = stage.client.request(
        "/apache.rocketmq.v2.MessagingService/SendMessage", body, stage.headers(extra=[(b"grpc-encoding", b"gzip")])
    )
    assert stage.grpc_status(stream)[0] == 8


def test_messages_arrive_whole_however_they_are_cut(stage: Stage) -> None:
    body = prefixed(pb.SendMessageRequest(messages=[message(bytes(range(256)) * 300)]).SerializeToString())
    connection = stage.client.connection
    stream = connection.get_next_available_stream_id()
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"g")]
    fields.append((b":path", b"/apache.rocketmq.v2.MessagingService/SendMessage"))
    connection.send_headers(stream, fields + stage.headers())
    for at in range(0, len(body), 777):
        connection.send_data(stream, body[at : at + 777])
        stage.client.exchange()
    connection.end_stream(stream)
    stage.client.exchange()
    command = stage.take(Send)
    assert command.messages[0].body == bytes(range(256)) * 300
    assert cut(prefixed(b"a") + prefixed(b"")) == [b"a", b""]


def test_incomplete_messages_of_streaming_calls_share_one_bound(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    uploads = stage.application.calls.setting.uploads
    stream = stage.open_telemetry()
    stage.client.connection.send_data(stream, (60_000).to_bytes(5, "big") + bytes(10_000))
    stage.client.exchange()
    assert uploads.bytes_held == 10_005
    others: dict[str, int] = {}
    while uploads.bytes_max - uploads.bytes_held > 12_000:
        others[f"host-{len(others)}"] = size = (uploads.bytes_max - uploads.bytes_held) // 2
        assert uploads.take(f"host-{len(others) - 1}", size)
    stage.client.connection.send_data(stream, bytes(4_000))
    stage.client.exchange()
    assert stage.grpc_status(stream)[0] == 8
    assert uploads.bytes_held == sum(others.values())
    for host, size in others.items():
        uploads.give(host, size)
