"""A client on one connection, in both versions of HTTP, with the use cases over a store in memory behind it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import CloseConnection, Event, TextMessage

from domain.address import host_bytes
from domain.admin.topic import PutTopic
from domain.command import Command, Disconnected, Send
from domain.event import Event as Answer
from domain.message import property as properties
from domain.message.message import Message
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from gateway.node.settings_tables import read
from protocols.adapter import Draining
from protocols.http.adapter import HttpAdapter, HttpApplicationFactory
from protocols.http.connection import HttpConnection
from protocols.http.settings import HttpSettings
from protocols.http2.connection import Http2Connection
from protocols.setting import Setting
from store.settings import StoreSettings
from tests.connection_driver import StrictDriver
from tests.gateway.usecase.bench import Bench, open_bench
from tests.protocols.http.stage import PEER
from tests.protocols.http2.peer import ENGINES
from tests.simulation.kit.entropy import FixedEntropy

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
VERSIONS = ("1.1", *(f"2 {engine}" for engine in ENGINES))
"""The versions of HTTP, and the engines of HTTP/2 that are built."""
FRAME_BYTES = 16_384
"""The largest frame of HTTP/2 that a peer takes without having said so (RFC 9113, 4.2)."""


def furnished(queues: int = 2) -> Bench:
    """Use cases with the topic `T`."""
    bench = open_bench(StoreSettings(broker="broker-a", store_host=host_bytes("127.0.0.1", 10911)))
    bench.ask(PutTopic(1, Topic("T", queues, queues)))
    return bench


def put(bench: Bench, *bodies: str, queue: int = 0, path: str = "", tag: str = "") -> None:
    """Send messages to `T`."""
    pairs = [("TAGS", tag)] if tag else []
    pairs += [(properties.ORIGIN_MQTT_TOPIC, path)] if path else []
    bench.ask(Send(1, [Message("T", body.encode(), properties.encode(pairs), queue_id=queue) for body in bodies]))


class Visit(StrictDriver):
    """One connection. A client that is not `reading` leaves the output of the node where it is.

    refused   what the adapter counted
    lost      the reason of the closed connection; "" while it is open
    """

    def __init__(self, bench: Bench, version: str = "1.1", authority: Any = None, **options: object) -> None:
        self.bench = bench
        self.version, _, engine = version.partition(" ")
        self.refused: list[str] = []
        self.lost = ""
        self.reading = True
        setting = Setting("c", "broker-a", "127.0.0.1", {}, FixedEntropy(), bench.clock.wall_ms, authority, refused=self._count)
        config = read(HttpSettings, "http", options, {})
        now = bench.clock.monotonic_ns()
        self.server: Draining
        if self.version == "2":
            session = ENGINES[engine or "h2"]
            self.server = Http2Connection(session, [HttpApplicationFactory(setting, config)], PEER, now, setting.uploads)
        else:
            accepted = HttpAdapter(setting, config).connect(PEER, now)
            assert isinstance(accepted, HttpConnection)
            self.server = accepted
        self.client = ClientConnection("http", self)
        self.client.host = PEER.host
        self.h2 = H2Connection(H2Configuration(header_encoding=None))
        self.raw = b""
        self.replies: dict[int, Reply] = {}
        if self.version == "2":
            self.h2.initiate_connection()

    def _count(self, protocol: str, word: str) -> None:
        self.refused.append(word)

    def answer(self, event: Answer) -> None:
        """An event of the use cases."""
        self.server.answer(event, self.bench.clock.monotonic_ns())

    def _handle(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Disconnected):
                self.lost = command.reason
            (self.bench.instead or self.bench.handler.handle)(self.client, command)

    def send(self, data: bytes) -> None:
        """Bytes to the node."""
        self._handle(self.server.receive(data, self.bench.clock.monotonic_ns()))

    def run(self, ms: float = 20) -> None:
        """Let time pass; the node's output is taken while the client reads."""
        clock = self.bench.clock
        end = clock.monotonic_ns() + int(ms * 1_000_000)
        while True:
            for _ in range(200):
                self._exchange()
                due = self.server.deadline()
                if due is None or due > clock.monotonic_ns():
                    break
                self._handle(self.server.expire(clock.monotonic_ns()))
            else:
                raise AssertionError("the connection never rests")
            if clock.monotonic_ns() >= end:
                return
            clock.run_for(min(5, (end - clock.monotonic_ns()) / 1_000_000))

    def _exchange(self) -> None:
        if self.version == "2":
            data = self.h2.data_to_send()
            if data:
                self.send(data)
        if not self.reading:
            return
        data = b"".join(self.server.outgoing())
        if self.version == "1.1":
            self.raw += data
            return
        for event in self.h2.receive_data(data):
            reply = self.replies.get(getattr(event, "stream_id", 0) or 0)
            if reply is None:
                continue
            if isinstance(event, ResponseReceived):
                reply.heads = [(name.decode(), value.decode()) for name, value in event.headers]
            elif isinstance(event, DataReceived):
                reply.content += event.data
                if reply.reading:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded | StreamReset):
                reply.over = True

    def ask(self, method: str, target: str, fields: dict[str, str] | None = None, body: bytes | None = b"") -> Reply:
        """Send a request; `body` None: its content follows."""
        reply = Reply(self)
        if self.version == "2":
            reply.stream = self.h2.get_next_available_stream_id()
            self.replies[reply.stream] = reply
            head = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", target)]
            if method == "CONNECT":
                head.insert(1, (":protocol", "websocket"))
                self.h2.remote_settings[SettingCodes.ENABLE_CONNECT_PROTOCOL] = 1
            head += [(name.lower(), value) for name, value in (fields or {}).items()]
            self.h2.send_headers(reply.stream, head, end_stream=body == b"" and method != "CONNECT")
            if body:
                self.h2.send_data(reply.stream, body, end_stream=True)
        else:
            lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
            lines += [f"{name}: {value}" for name, value in (fields or {}).items()]
            if body is None:
                lines.append("Transfer-Encoding: chunked")
            elif body:
                lines.append(f"Content-Length: {len(body)}")
            self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        self.run()
        return reply

    def socket(self, target: str, fields: dict[str, str] | None = None) -> Socket:
        """Open a WebSocket."""
        more = {"Sec-WebSocket-Version": "13", **(fields or {})}
        if self.version == "2":
            return Socket(self.ask("CONNECT", target, more))
        more |= {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": KEY}
        return Socket(self.ask("GET", target, more))


class Reply:
    """One response, as far as it has come."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.stream = 0
        self.heads: list[tuple[str, str]] = []
        self.content = b""
        self.over = False
        self.reading = True
        self._chunks = b""

    def more(self, ms: float = 20) -> bytes:
        """What has come since the last call, without chunks."""
        self.visit.run(ms)
        if self.visit.version == "1.1":
            self._read()
        content, self.content = self.content, b""
        return content

    def _read(self) -> None:
        raw = self.visit.raw
        while not self.heads:
            if b"\r\n\r\n" not in raw:
                return
            head, _, raw = raw.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            if lines[0].split(" ")[1] != "100":
                self.heads = [(":status", lines[0].split(" ")[1])]
                self.heads += [(name, value) for name, _, value in (line.partition(": ") for line in lines[1:])]
        self.visit.raw = b""
        self._chunks += raw
        if ("transfer-encoding", "chunked") not in self.heads:
            self.content, self._chunks = self.content + self._chunks, b""
            return
        while b"\r\n" in self._chunks:
            size, _, rest = self._chunks.partition(b"\r\n")
            length = int(size, 16)
            if len(rest) < length + 2:
                return
            self.over = length == 0
            self.content += rest[:length]
            self._chunks = rest[length + 2 :]

    @property
    def status(self) -> int:
        """The status."""
        if not self.heads:
            self.visit.run()
            if self.visit.version == "1.1":
                self._read()
        return int(dict(self.heads)[":status"])

    def field(self, name: str) -> str:
        """One field; "" when it is absent."""
        assert self.status
        return dict(self.heads).get(name, "")

    def json(self) -> Any:
        """The content as one JSON document."""
        assert self.status
        return json.loads(self.more())

    def lines(self, ms: float = 20) -> list[Any]:
        """Lines that are not empty, decoded."""
        return [json.loads(line) for line in self.more(ms).split(b"\n") if line]

    def events(self, ms: float = 20) -> list[dict[str, str]]:
        """Server-sent events: their fields; the last value of a field counts."""
        found = []
        for block in self.more(ms).decode().split("\n\n"):
            fields = [line.partition(": ") for line in block.split("\n") if line]
            if fields:
                found.append({name: value for name, _, value in fields})
        return found

    def upload(self, data: bytes, ends: bool = False) -> None:
        """A part of the request's content."""
        visit = self.visit
        if visit.version == "2":
            while len(data) > FRAME_BYTES:
                visit.h2.send_data(self.stream, data[:FRAME_BYTES])
                visit.run()
                data = data[FRAME_BYTES:]
            visit.h2.send_data(self.stream, data, end_stream=ends)
        else:
            visit.send((b"%x\r\n%b\r\n" % (len(data), data) if data else b"") + (b"0\r\n\r\n" if ends else b""))
        visit.run()

    def hang_up(self) -> None:
        """Leave."""
        if self.visit.version == "2":
            self.visit.h2.reset_stream(self.stream, 8)
            self.visit.run()
        else:
            self.visit.send(b"")


class Socket:
    """The client's side of a WebSocket.

    closed   (code, words) of the node's close frame; None: there is none
    """

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.frames = Frames(ConnectionType.CLIENT)
        self.closed: tuple[int, str] | None = None
        self.others: list[Event] = []

    def put(self, event: Event) -> None:
        """Send a frame."""
        self.put_raw(self.frames.send(event))

    def put_raw(self, data: bytes) -> None:
        """Send bytes."""
        if self.reply.visit.version == "2":
            for at in range(0, len(data), 16_000):
                if not self.reply.over:
                    self.reply.visit.h2.send_data(self.reply.stream, data[at : at + 16_000])
                    self.reply.visit.run(1)
        else:
            self.reply.visit.send(data)
        self.reply.visit.run()

    def say(self, document: object) -> None:
        """Send a message."""
        self.put(TextMessage(document if isinstance(document, str) else json.dumps(document)))

    def hear(self, ms: float = 20) -> list[Any]:
        """Messages of the node."""
        data = self.reply.more(ms)
        if data:
            self.frames.receive_data(data)
        found = []
        text = ""
        for event in self.frames.events():
            if isinstance(event, TextMessage):
                text += event.data
                if event.message_finished:
                    found.append(json.loads(text))
                    text = ""
            elif isinstance(event, CloseConnection):
                self.closed = (int(event.code), event.reason or "")
            else:
                self.others.append(event)
        return found
