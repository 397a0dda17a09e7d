"""Recognition: each protocol at the first byte that decides it, for any split of the bytes; other bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import limits
from domain.admin.topic import ListTopics
from domain.command import Disconnected
from domain.refusal import TLS_ONLY
from gateway.node.protocols import installed
from protocols import registry
from protocols.adapter import Peer
from protocols.http2.recognition import PREFACE
from protocols.registry import NOBODY, PROXY, TLS, Opening, SecureConnection
from protocols.remoting.wire import frame
from tests.gateway.scripted import ScriptedConnection

PEER = Peer("127.0.0.1", 1, b"\x7f\x00\x00\x01\x00\x00\x00\x01")

HTTP1, HTTP2, MQTT, REMOTING, WEBSOCKET = "http", "http2", "mqtt", "remoting", "websocket"
RECOGNISER = installed().recogniser
recognise = RECOGNISER.recognise

BEGINNINGS = [
    (PROXY, b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", 6),
    (PROXY, b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c", 12),
    (TLS, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 2),
    (HTTP2, PREFACE + b"\x00\x00\x00\x04", 24),
    (HTTP1, b"GET /healthz HTTP/1.1\r\n", 6),
    (WEBSOCKET, b"GET /mqtt HTTP/1.1\r\n", 10),
    (HTTP1, b"POST /ce/orders HTTP/1.1\r\n", 5),
    (HTTP1, b"PRI / HTTP/1.1\r\n", 5),
    (HTTP1, b"\r\nGET /healthz HTTP/1.1\r\n", 8),
    (WEBSOCKET, b"\r\nGET /mqtt HTTP/1.1\r\n", 12),
    (WEBSOCKET, b"\r\nGET /.well-known/coap HTTP/1.1\r\n", 24),
    (HTTP1, b"M-SEARCH * HTTP/1.1\r\n", 9),
    (MQTT, b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd", 8),
    (MQTT, b"\x10\x80\x01\x00\x04MQTT\x05", 9),
    (MQTT, b"\x10\xff\xff\xff\x7f\x00\x04MQTT\x05", 11),
    (MQTT, b"\x10\x12\x00\x06MQIsdp\x03\x02", 10),
    (REMOTING, b"\x00\x00\x00\x64\x00\x00\x00\x60{", 8),
    (REMOTING, b"\x00\x00\x04\x00\x01\x00\x00\x30\x00\x69", 8),
    (REMOTING, b"\x01\x00\x00\x00\x01\x00\x00\x30\x00\x69", 8),
]


@pytest.mark.parametrize(("name", "data", "telling"), BEGINNINGS)
def test_recognised_at_the_telling_byte_and_not_before(name: str, data: bytes, telling: int) -> None:
    for length in range(len(data) + 1):
        assert recognise(data[:length]) == ("" if length < telling else name), length


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x04",
        b"\x15\x03\x01",
        b" GET",
        b"GET\r\n",
        b"\nGET /",
        b"\rGET /",
        b"\r\n GET /",
        b"\r\n\r\nGET /",
        b"\r\n\r\n\x00\r\nQUIX",
        b"\r\nABCDEFGHIJKLMNOPQRSTUV",
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        b"\x10\x80\x80\x80\x80\x01",
        b"\x10\x10\x00\x05",
        b"\x10\x10\x00\x04MQTX",
        b"\x20\x02\x00\x00",
        b"\x30\x05",
        b"\x01\x00\x00\x01\x00\x00\x00\x10",
        b"\x00\x00\x00\x03",
        b"\x00\x00\x00\x64\x02",
        b"\x00\x00\x00\x64\x00\x00\x00\x61",
        b"\xff\xff\xff\xff",
        b"\x80",
    ],
)
def test_nobody_is_told_at_once(data: bytes) -> None:
    assert recognise(data) == NOBODY


def test_broken_preface_is_a_request_of_http_1() -> None:
    assert recognise(b"PRI * HTTP/2.0\r\n\r\nXX") == HTTP1


@given(st.binary(max_size=64))
@settings(max_examples=100)
def test_any_bytes_are_decided_within_the_bound_and_stay_decided(data: bytes) -> None:
    decided = ""
    for length in range(len(data) + 1):
        verdict = recognise(data[:length])
        if decided:
            assert verdict == decided
        decided = verdict
    if len(data) >= registry.RECOGNISE_BYTES_MAX:
        assert decided


class OneAdapter:
    """Connects to the one scripted connection."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.connection = ScriptedConnection()
        self.peers: list[Peer] = []

    def connect(self, peer: Peer, now: int) -> ScriptedConnection:
        self.peers.append(peer)
        return self.connection


@pytest.mark.parametrize(("name", "data", "telling"), [row for row in BEGINNINGS if row[0] not in (PROXY, TLS)])
def test_opening_keeps_bytes_and_becomes_the_real_connection(name: str, data: bytes, telling: int) -> None:
    adapter = OneAdapter(name)
    adapter.connection.commands = [ListTopics(1)]
    opening = Opening(RECOGNISER, {name: adapter}, None, PEER, 0)
    commands: list[object] = []
    for index in range(len(data)):
        connection = opening.chosen
        commands += connection.receive(data[index : index + 1], index)
        assert (opening.protocol == name) == (index + 1 >= telling)
    assert opening.chosen is adapter.connection
    assert b"".join(adapter.connection.received) == data
    assert adapter.connection.received[0] == data[:telling]
    assert commands == [ListTopics(1)]
    assert adapter.peers == [PEER]


@pytest.mark.parametrize("data", [data for name, data, _ in BEGINNINGS if name == PROXY])
def test_header_of_a_proxy_that_is_not_expected_is_closed(data: bytes) -> None:
    opening = Opening(RECOGNISER, {MQTT: OneAdapter(MQTT), HTTP1: OneAdapter(HTTP1)}, None, PEER, 0)
    assert opening.receive(data, 1) == (Disconnected("proxy-refused"),)
    assert opening.closed
    assert opening.outgoing() == ()


def test_protocol_that_the_port_does_not_take_is_closed() -> None:
    opening = Opening(RECOGNISER, {MQTT: OneAdapter(MQTT)}, None, PEER, 0)
    assert opening.receive(b"GET / HTTP/1.1\r\n", 1) == (Disconnected("unrecognised"),)
    assert opening.closed
    assert opening.outgoing() == ()


def test_tls_on_a_port_without_it_is_closed() -> None:
    opening = Opening(RECOGNISER, {MQTT: OneAdapter(MQTT)}, None, PEER, 0)
    assert opening.receive(b"\x16\x03\x01", 1) == (Disconnected("unrecognised"),)


def test_undecided_connection_is_closed_after_ten_seconds() -> None:
    opening = Opening(RECOGNISER, {MQTT: OneAdapter(MQTT)}, None, PEER, 7)
    opening.receive(b"\x10", 8)
    assert opening.deadline() == 7 + limits.HANDSHAKE_NS
    assert opening.expire(7 + limits.HANDSHAKE_NS) == (Disconnected("unrecognised-late"),)
    assert opening.closed


@pytest.mark.parametrize(("sent", "reason"), [(b"", "silent"), (b"\x10", "unrecognised-end")])
def test_end_of_stream_before_anything_was_told(sent: bytes, reason: str) -> None:
    opening = Opening(RECOGNISER, {MQTT: OneAdapter(MQTT)}, None, PEER, 0)
    if sent:
        opening.receive(sent, 1)
    assert opening.receive(b"", 2) == (Disconnected(reason),)
    assert opening.receive(b"", 3) == ()


def test_http_2_is_known_by_whose_its_first_request_is() -> None:
    adapter = OneAdapter(HTTP2)
    opening = Opening(RECOGNISER, {HTTP2: adapter}, None, PEER, 0)
    for spoken, name in (("", ""), ("grpc", "grpc"), ("http", HTTP1)):
        adapter.connection.spoken = spoken  # type: ignore[attr-defined]
        if opening.chosen is opening:
            opening.receive(PREFACE, 0)
        assert opening.protocol == name


def to_tls_only(data: bytes) -> tuple[object, bytes]:
    """(reason, what the client is told) of plain bytes on a port that takes TLS only."""

    def secure(peer: Peer, now: int) -> SecureConnection:
        raise AssertionError("these bytes begin no TLS")

    opening = Opening(RECOGNISER, {}, secure, PEER, 0)
    [command] = opening.receive(data, 1)
    assert isinstance(command, Disconnected)
    assert opening.closed
    told = b"".join(opening.outgoing())
    assert opening.outgoing() == ()
    return command.reason, told


@pytest.mark.parametrize(("name", "data", "telling"), [row for row in BEGINNINGS if row[0] not in (PROXY, TLS)])
def test_plaintext_to_a_port_that_takes_tls_only_is_counted_as_that(name: str, data: bytes, telling: int) -> None:
    assert to_tls_only(data)[0] == "plaintext"


def test_bytes_of_no_protocol_to_a_port_that_takes_tls_only_are_unrecognised() -> None:
    assert to_tls_only(b"\x15\x03\x01") == ("unrecognised", b"")


@pytest.mark.parametrize("sent", [b"GET /v1/topics HTTP/1.1\r\n", b"GET /mqtt HTTP/1.1\r\n", PREFACE])
def test_http_and_websocket_without_tls_are_answered_400(sent: bytes) -> None:
    """HTTP/2 too, in HTTP/1.1: gRPC's clients repeat without end a call that is ended by GOAWAY."""
    told = to_tls_only(sent)[1]
    head, _, text = told.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert f"Content-Length: {len(text)}".encode() in head
    assert b"takes TLS only: use https" in text


@pytest.mark.parametrize("serialize", [0, 1])
def test_remoting_without_tls_is_answered_no_permission(serialize: int) -> None:
    requests = [
        frame.encode(105, 7, fields={"topic": "orders"}, serialize=serialize),
        frame.encode(34, 8, flag=2, serialize=serialize),
        frame.encode(11, 9, body=b"x", serialize=serialize),
    ]
    replies = frame.FrameDecoder().feed(to_tls_only(b"".join(requests))[1])
    assert [(reply.opaque, reply.code, reply.remark, reply.response) for reply in replies] == [
        (opaque, 16, TLS_ONLY, True) for opaque in (7, 9)
    ]
    assert to_tls_only(requests[0][:12])[1] == b""


@pytest.mark.parametrize(
    ("connect", "told"),
    [
        (b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd", b"\x20\x02\x00\x05"),
        (b"\x10\x11\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x04abcd", b"\x20\x1e\x00\x87\x1b\x1f\x00\x18" + TLS_ONLY.encode()),
        (b"\x10\x10\x00\x04MQTT", b""),
    ],
)
def test_mqtt_without_tls_is_told_not_authorized(connect: bytes, told: bytes) -> None:
    assert to_tls_only(connect)[1] == told
