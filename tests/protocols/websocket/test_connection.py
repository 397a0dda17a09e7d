"""WebSocket that carries another protocol; the clients are wsproto's client end and raw bytes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from domain.command import Command, Disconnected
from domain.errors import ConfigError
from domain.event import Done
from domain.event import Event as Answer
from domain.limits import HANDSHAKE_NS
from gateway.node.settings_tables import read
from protocols.adapter import Peer
from protocols.websocket.adapter import WebSocketAdapter
from protocols.websocket.connection import WebSocketConnection
from protocols.websocket.settings import WebSocketSettings
from protocols.websocket_frame import FRAME_BYTES_MAX, FRAMES_PER_TURN_MAX, FrameOutline
from tests.protocols.taken import only

PEER = Peer("127.0.0.1", 40_000, b"\x7f\x00\x00\x01\x00\x00\x9c\x40")
UPGRADE = b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


class Echo:
    """A protocol that sends back what it receives; its connection ends at `!` or at the end of the stream."""

    name = "echo"

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.out: list[bytes] = []
        self.reading = True
        self.closed = False

    def connect(self, peer: Peer, now: int) -> Echo:
        return self

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        self.heard.append(data)
        self.out.append(data)
        self.closed = data in (b"", b"!")
        return (Disconnected("over", data == b"!"),) if self.closed else ()

    def answer(self, event: Answer, now: int) -> None:
        self.out.append(b"answer")

    def outgoing(self) -> Sequence[bytes]:
        out, self.out = self.out, []
        return out

    def drain(self, now: int) -> Sequence[Command]:
        self.out.append(b"bye")
        self.closed = True
        return (Disconnected("drained"),)

    def deadline(self) -> int | None:
        return 77

    def expire(self, now: int) -> Sequence[Command]:
        return (Disconnected("expired"),)


class Visitor:
    """A client."""

    def __init__(self, target: str = "/mqtt", subprotocols: Sequence[str] = ("echo",), now: int = 0) -> None:
        self.inner = Echo()
        self.refused: list[tuple[str, str]] = []
        adapter = WebSocketAdapter({"/mqtt": self.inner}, WebSocketSettings(), lambda *refusal: self.refused.append(refusal))
        self.connection: WebSocketConnection = adapter.connect(PEER, now)
        self.socket = WSConnection(ConnectionType.CLIENT)
        self.commands: list[Command] = []
        self.first = self.say(Request("localhost", target, subprotocols=list(subprotocols)))

    def say(self, event: Event, step: int = 1 << 20) -> list[Event]:
        return self.put(self.socket.send(event), step)

    def put(self, data: bytes, step: int = 1 << 20) -> list[Event]:
        for at in range(0, len(data), step):
            self.commands += self.connection.receive(data[at : at + step], 0)
        return self.poll()

    def poll(self) -> list[Event]:
        for part in self.connection.outgoing():
            self.socket.receive_data(part)
        return list(self.socket.events())


def test_the_sub_protocol_is_negotiated() -> None:
    accepted = only(Visitor("/mqtt?x=1", ("other", "echo")).first, AcceptConnection)
    assert accepted.subprotocol == "echo"


@pytest.mark.parametrize(
    ("target", "subprotocols", "status"), [("/mqtt", (), 400), ("/mqtt", ("mqttv3.1",), 400), ("/other", ("echo",), 404)]
)
def test_other_paths_and_other_sub_protocols_are_refused(target: str, subprotocols: Sequence[str], status: int) -> None:
    visitor = Visitor(target, subprotocols)
    assert isinstance(visitor.first[0], RejectConnection)
    assert visitor.first[0].status_code == status
    assert visitor.connection.closed
    assert visitor.commands == [Disconnected("websocket-refused")]
    assert visitor.inner.heard == []


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /mqtt HTTP/1.1\r\nhost: x\r\n\r\n", b"426"),
        (b"POST /mqtt HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", b"426"),
        (b"GET /mqtt HTTP/1.1\r\nhost: x\r\n" + UPGRADE + b"sec-websocket-version: 12\r\n\r\n", b"426"),
        (b"GET /mqtt HTTP/1.1\r\nbad head\r\n\r\n", b"400"),
        (b"GET /mqtt HTTP/1.1\r\nx: " + b"a" * 70_000, b"431"),
    ],
)
def test_what_is_no_handshake_gets_an_answer_of_http(request_bytes: bytes, status: bytes) -> None:
    connection = WebSocketAdapter({"/mqtt": Echo()}, WebSocketSettings()).connect(PEER, 0)
    assert connection.receive(request_bytes, 0) == [Disconnected("websocket-refused")]
    answer = b"".join(connection.outgoing())
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert connection.closed


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
def test_bytes_come_whole_split_and_joined(step: int) -> None:
    visitor = Visitor()
    data = visitor.socket.send(BytesMessage(b"one", message_finished=False))
    data += visitor.socket.send(BytesMessage(b"", message_finished=False))
    data += visitor.socket.send(BytesMessage(b"two")) + visitor.socket.send(BytesMessage(b"three" * 50))
    said = visitor.put(data, step)
    assert b"".join(visitor.inner.heard) == b"onetwo" + b"three" * 50
    assert b"" not in visitor.inner.heard
    assert b"".join(bytes(event.data) for event in said if isinstance(event, BytesMessage)) == b"onetwo" + b"three" * 50


def test_all_of_a_turn_goes_out_in_one_frame() -> None:
    visitor = Visitor()
    visitor.inner.out = [b"a", b"b"]
    visitor.connection.answer(Done(1), 0)
    message = only(visitor.poll(), BytesMessage)
    assert message.data == b"abanswer"


def test_text_is_refused() -> None:
    visitor = Visitor()
    goodbye = only(visitor.say(TextMessage("hello")), CloseConnection)
    assert goodbye.code == 1003
    assert visitor.inner.heard == [b""]
    assert visitor.commands == [Disconnected("over")]
    assert visitor.connection.closed


def test_a_frame_that_is_not_masked_breaks_the_protocol() -> None:
    visitor = Visitor()
    goodbye = only(visitor.put(b"\x82\x01x"), CloseConnection)
    assert goodbye.code == 1002
    assert visitor.commands == [Disconnected("over")]


def test_pings_are_answered() -> None:
    pong = only(Visitor().say(Ping(b"p")), Pong)
    assert pong.payload == b"p"


def test_a_close_frame_is_answered_and_ends_the_stream_inside() -> None:
    visitor = Visitor()
    only(visitor.say(CloseConnection(1000)), CloseConnection)
    assert visitor.inner.heard == [b""]
    assert visitor.commands == [Disconnected("over")]
    assert visitor.connection.receive(b"more", 0) == ()


def test_what_the_protocol_inside_says_last_goes_out_before_the_close_frame() -> None:
    visitor = Visitor()
    last, goodbye = visitor.say(BytesMessage(b"!"))
    assert isinstance(last, BytesMessage)
    assert last.data == b"!"
    assert isinstance(goodbye, CloseConnection)
    assert (goodbye.code, visitor.connection.closed) == (1000, True)
    assert visitor.commands == [Disconnected("over", True)]


def test_the_end_of_the_stream_without_a_close_frame() -> None:
    visitor = Visitor()
    assert visitor.connection.receive(b"", 0) == (Disconnected("over"),)
    silent = WebSocketAdapter({}, WebSocketSettings()).connect(PEER, 0)
    assert silent.receive(b"", 0) == (Disconnected("websocket-cut-short"),)


def test_deadlines() -> None:
    slow = WebSocketAdapter({}, WebSocketSettings()).connect(PEER, 5)
    assert slow.deadline() == 5 + HANDSHAKE_NS
    assert slow.expire(5) == ()
    assert slow.expire(5 + HANDSHAKE_NS) == (Disconnected("websocket-handshake"),)
    assert slow.closed
    visitor = Visitor()
    assert visitor.connection.deadline() == 77
    assert visitor.connection.expire(0) == (Disconnected("expired"),)
    visitor.inner.reading = False
    visitor.poll()
    assert not visitor.connection.reading


def test_a_node_that_stops_lets_the_protocol_inside_say_so() -> None:
    visitor = Visitor()
    assert visitor.connection.drain(0) == (Disconnected("drained"),)
    last, goodbye = visitor.poll()
    assert isinstance(last, BytesMessage)
    assert (last.data, isinstance(goodbye, CloseConnection), visitor.connection.closed) == (b"bye", True, True)
    early = WebSocketAdapter({}, WebSocketSettings()).connect(PEER, 0)
    assert early.drain(0) == (Disconnected("shutting-down"),)
    assert early.closed


@pytest.mark.parametrize(
    ("origins", "origin", "admitted"),
    [
        (["*"], "https://any.example", True), (["https://good.example"], "https://good.example", True),
        (["https://Good.example/"], "https://GOOD.example", True), (["https://good.example"], "http://good.example", False),
        (["https://good.example"], "https://good.example.evil", False), (["https://good.example"], "null", False),
        (["https://good.example"], "", True), ([], "https://good.example", False),
    ],
)  # fmt: skip
def test_pages_connect_from_origins_that_are_allowed(origins: list[str], origin: str, admitted: bool) -> None:
    """RFC 6455, 10.2: 403 for a page of another origin; a client without Origin is not a browser."""
    connection = WebSocketAdapter({"/echo": Echo()}, WebSocketSettings(tuple(origins))).connect(PEER, 0)
    client = WSConnection(ConnectionType.CLIENT)
    headers = [(b"origin", origin.encode())] if origin else []
    connection.receive(client.send(Request("localhost", "/echo", subprotocols=["echo"], extra_headers=headers)), 0)
    for part in connection.outgoing():
        client.receive_data(part)
    answer = next(iter(client.events()))
    assert isinstance(answer, AcceptConnection if admitted else RejectConnection)
    assert isinstance(answer, AcceptConnection) or answer.status_code == 403


@pytest.mark.parametrize("options", [{"origin": ["*"]}, {"origins": "*"}, {"origins": [1]}])
def test_settings_that_mean_nothing(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        read(WebSocketSettings, "websocket", options, {})


GOOD = b"GET /mqtt HTTP/1.1\r\nhost: localhost\r\n" + UPGRADE + b"sec-websocket-version: 13\r\nsec-websocket-protocol: echo\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (GOOD, b"101"),
        (GOOD.replace(b"HTTP/1.1", b"HTTP/1.0"), b"400"),
        (GOOD.replace(b"\r\n", b"\n"), b"400"),
        (GOOD.replace(b"host: localhost\r\n", b"host: localhost\n"), b"400"),
        (GOOD.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"c2hvcnQ="), b"400"),
        (GOOD.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"not base64 of anything"), b"400"),
        (GOOD + b"x: y\r\n" * 2_000, b"431"),
        (GOOD + b"x: " + b"a" * 65_536 + b"\r\n", b"431"),
    ],
)
@pytest.mark.parametrize("step", [1, 100_000])
def test_only_a_strict_handshake_is_upgraded(head: bytes, status: bytes, step: int) -> None:
    connection = WebSocketAdapter({"/mqtt": Echo()}, WebSocketSettings()).connect(PEER, 0)
    data = head + b"\r\n"
    for at in range(0, len(data), step):
        connection.receive(data[at : at + step], 0)
    out = b"".join(connection.outgoing())
    assert out.startswith(b"HTTP/1.1 " + status)
    assert out.count(b"HTTP/1.1 ") == 1
    assert connection.closed is (status != b"101")


@pytest.mark.parametrize("length", [FRAME_BYTES_MAX + 1, 1 << 30, (1 << 63) - 1, (1 << 64) - 1])
def test_a_frame_that_is_too_large_is_answered_1009(length: int) -> None:
    visitor = Visitor()
    closed = only(visitor.put(b"\x82\xff" + length.to_bytes(8, "big") + bytes(4)), CloseConnection)
    assert closed.code == 1009
    assert visitor.connection.closed
    assert visitor.refused == [("websocket", "websocket-frame-too-large")]


def test_a_flood_of_pings_is_answered_over_turns() -> None:
    """43,000 pings fit into one read of a socket."""
    visitor = Visitor()
    visitor.connection.outgoing()
    visitor.connection.receive(b"\x89\x80\x00\x00\x00\x00" * 1_000, 0)
    turns = 1
    pongs = [len(b"".join(visitor.connection.outgoing()))]
    while visitor.connection.deadline() == 0:
        assert not visitor.connection.reading
        visitor.connection.expire(0)
        pongs.append(len(b"".join(visitor.connection.outgoing())))
        turns += 1
    assert visitor.connection.reading
    assert max(pongs) <= 2 * FRAMES_PER_TURN_MAX
    assert sum(pongs) == 2_000


@given(st.lists(st.integers(0, 70_000), min_size=1, max_size=300), st.lists(st.integers(1, 9_000), max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_outline_loses_no_byte_and_bounds_each_turn(lengths: list[int], cuts: list[int]) -> None:
    def head(length: int) -> bytes:
        if length < 126:
            return bytes([0x82, 0x80 | length])
        return b"\x82\xfe" + length.to_bytes(2, "big") if length < 65_536 else b"\x82\xff" + length.to_bytes(8, "big")

    data = b"".join([head(length) + bytes(4 + min(length, 200)) for length in [each % 200 for each in lengths]])
    outline, at, out = FrameOutline(), 0, b""
    for cut in [*cuts, len(data)]:
        pieces = outline.cut(data[at : at + cut])
        at += cut
        out += b"".join(pieces)
        assert len(pieces) <= 1 + cut // (2 * FRAMES_PER_TURN_MAX)
    assert out == data
    assert not outline.fault


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:8083", "", b"101"),
        ("localhost:8083", "http://localhost:8083", b"101"),
        ("10.0.0.1", "http://10.0.0.1", b"101"),
        ("localhost:8083", "http://localhost:3000", b"403"),
        ("10.0.0.1:8083", "http://10.0.0.1", b"403"),
        ("localhost:8083", "https://shop.example", b"403"),
        ("localhost:8083", "null", b"403"),
        ("evil.example:8083", "http://evil.example", b"403"),
        ("evil.example:8083", "", b"403"),
    ],
)
def test_pages_of_the_same_origin_may_connect_and_no_others(host: str, origin: str, status: bytes) -> None:
    """A page that points its own name to this node is of the same host, but of none of this node's names."""
    connection = WebSocketAdapter({"/mqtt": Echo()}, WebSocketSettings()).connect(PEER, 0)
    field = f"origin: {origin}\r\n".encode() if origin else b""
    connection.receive(GOOD.replace(b"localhost", host.encode()) + field + b"\r\n", 0)
    assert b"".join(connection.outgoing()).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(("origin", "status"), [("http://localhost:3000", b"101"), ("http://other:3000", b"403")])
def test_pages_of_any_port_of_the_host_may_connect_where_they_need_credentials(origin: str, status: bytes) -> None:
    """What such a page sends has no password of somebody else's: browsers add none to an MQTT packet."""
    connection = WebSocketAdapter({"/mqtt": Echo()}, WebSocketSettings(), controlled=True).connect(PEER, 0)
    connection.receive(GOOD.replace(b"localhost", b"localhost:8083") + f"origin: {origin}\r\n\r\n".encode(), 0)
    assert b"".join(connection.outgoing()).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost:8083/mqtt", "evil.example", b"101"),
        ("http://evil.example/mqtt", "localhost:8083", b"403"),
        ("https://[::1]:8084/mqtt?x", "evil.example", b"101"),
        ("http://localhost@evil.example/mqtt", "localhost", b"404"),
        ("http:///mqtt", "localhost", b"404"),
    ],
)
def test_the_authority_of_an_absolute_target_counts(target: str, host: str, status: bytes) -> None:
    """RFC 9112, 3.2.2."""
    connection = WebSocketAdapter({"/mqtt": Echo()}, WebSocketSettings()).connect(PEER, 0)
    head = f"GET {target} HTTP/1.1\r\nhost: {host}\r\nsec-websocket-version: 13\r\nsec-websocket-protocol: echo\r\n"
    connection.receive(head.encode() + UPGRADE + b"\r\n", 0)
    assert b"".join(connection.outgoing())[9:12] == status


@pytest.mark.parametrize("step", [1, 2, 3, 1 << 20])
@pytest.mark.parametrize(("lines", "status"), [(b"\r\n", b"101"), (b"\r\n\r\n", b"400"), (b"\n", b"400"), (b"\r", b"400")])
def test_one_empty_line_before_the_request_is_skipped(lines: bytes, status: bytes, step: int) -> None:
    """RFC 9112, 2.2."""
    connection = WebSocketAdapter({"/mqtt": Echo()}, WebSocketSettings()).connect(PEER, 0)
    head = b"GET /mqtt HTTP/1.1\r\nhost: localhost\r\nsec-websocket-version: 13\r\nsec-websocket-protocol: echo\r\n"
    data = lines + head + UPGRADE + b"\r\n"
    for at in range(0, len(data), step):
        connection.receive(data[at : at + step], 0)
    assert b"".join(connection.outgoing())[9:12] == status
