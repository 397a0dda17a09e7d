"""The peer of a connection, in memory: a client by hyper-h2, and an application that records its calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from domain.command import Command, QueryLatest
from domain.event import Event as DomainEvent
from domain.event import LatestValue
from protocols.adapter import Peer
from protocols.http2 import engine_h2
from protocols.http2.application import Application, Reply
from protocols.http2.connection import Http2Connection
from protocols.http2.engine import EngineFactory
from protocols.http2.head import Headers, RequestHead

PEER = Peer("127.0.0.1", 50000, b"\x7f\x00\x00\x01\x00\x00\xc3\x50")
SECOND = 1_000_000_000
REQUEST = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"gate"), (b":path", b"/note")]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EMPTY_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
SETTINGS_ACK = b"\x00\x00\x00\x04\x01\x00\x00\x00\x00"


def engines() -> dict[str, EngineFactory]:
    """The engines that can be tested; nghttp2 needs its binding, which HEADGATE_REQUIRE_COMPILED makes mandatory."""
    found: dict[str, EngineFactory] = {"h2": engine_h2.Session}
    try:
        from protocols.http2 import engine_nghttp2
    except ImportError:
        if os.environ.get("HEADGATE_REQUIRE_COMPILED") == "1":
            raise
    else:
        found["nghttp2"] = engine_nghttp2.Session
    return found


ENGINES = engines()
both_engines = pytest.mark.parametrize("engine", list(ENGINES.values()), ids=list(ENGINES))


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """One frame (RFC 9113 section 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + payload


class Notebook:
    """An application for requests under /note, which answers each with the latest value of its path."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.notified: list[tuple[object, ...]] = []
        self.bodies: dict[int, bytes] = {}
        self.fields: dict[int, Headers] = {}
        self.answer_with: Callable[[int, bytes], None] | None = None
        self.early = False
        self.due: int | None = None

    def accepts(self, head: RequestHead) -> bool:
        return head.path.startswith(b"/note")

    def opened(self, stream_id: int, head: RequestHead, now: int) -> Sequence[Command]:
        self.notified.append(("opened", stream_id, head.path))
        self.fields[stream_id] = head.fields
        self.bodies[stream_id] = b""
        if self.early:
            self.reply.respond(stream_id, [(b":status", b"413")], True)
        return ()

    def data(self, stream_id: int, data: bytes, now: int) -> Sequence[Command]:
        self.bodies[stream_id] += data
        return ()

    def ended(self, stream_id: int, now: int) -> Sequence[Command]:
        self.notified.append(("ended", stream_id, self.bodies[stream_id]))
        return (QueryLatest((self, stream_id), "path"),)

    def cancelled(self, stream_id: int, now: int) -> Sequence[Command]:
        self.notified.append(("cancelled", stream_id))
        return ()

    def answer(self, event: DomainEvent, now: int) -> None:
        assert isinstance(event, LatestValue)
        if event.ticket is None:
            self.notified.append(("unasked",))
            return
        assert isinstance(event.ticket, tuple)
        stream_id = event.ticket[1]
        body = event.record or b""
        self.reply.respond(stream_id, [(b":status", b"200"), (b"x-size", b"%d" % len(body))], False)
        self.reply.send(stream_id, body, False)
        self.reply.trailers(stream_id, [(b"grpc-status", b"0")])

    def deadline(self) -> int | None:
        return self.due

    def expire(self, now: int) -> Sequence[Command]:
        self.due = None
        return (QueryLatest((self, 0), "expired"),)


class Notebooks:
    """Its factory; `last` is the application of the last connection."""

    name = "notes"
    last: Notebook

    def open(self, reply: Reply, peer: Peer, now: int) -> Application:
        self.last = Notebook(reply)
        return self.last


class Client:
    """A hyper-h2 client and a server connection, both in memory. `events` are all events of the client."""

    def __init__(self, server: Http2Connection, window: int = 65_535) -> None:
        self.server = server
        self.now = 0
        self.connection = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.connection.local_settings.initial_window_size = window
        self.connection.initiate_connection()
        self.events: list[Event] = []
        self.commands: list[Command] = []
        self.exchange()

    def exchange(self) -> None:
        """Carry bytes in both directions until there are none left."""
        while True:
            ours = self.connection.data_to_send()
            if ours:
                self.commands += self.server.receive(ours, self.now)
            theirs = b"".join(self.server.outgoing())
            if theirs:
                for event in self.connection.receive_data(theirs):
                    self.events.append(event)
                    if isinstance(event, DataReceived) and event.flow_controlled_length:
                        self.took(event)
            if not ours and not theirs:
                return

    def took(self, event: DataReceived) -> None:
        """Return the window of received data."""
        if event.stream_id in self.connection.streams and self.connection.streams[event.stream_id].open:
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def request(self, path: str, body: bytes | None = None, headers: Headers | None = None) -> int:
        """Send a complete request; `body` None: without one."""
        stream_id = self.connection.get_next_available_stream_id()
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"gate"), (b":path", path.encode())]
        self.connection.send_headers(stream_id, fields + (headers or []), end_stream=body is None)
        if body is not None:
            at = 0
            while len(body) - at > 16_384:
                self.connection.send_data(stream_id, body[at : at + 16_384])
                at += 16_384
                self.exchange()
            self.connection.send_data(stream_id, body[at:], end_stream=True)
        self.exchange()
        return stream_id

    def answered(self, stream_id: int) -> bool:
        """True when a response has begun."""
        return any(isinstance(event, ResponseReceived) and event.stream_id == stream_id for event in self.events)

    def responses(self, stream_id: int) -> dict[bytes, bytes]:
        """The response's header fields."""
        for event in self.events:
            if isinstance(event, ResponseReceived) and event.stream_id == stream_id:
                return dict(event.headers)
        raise AssertionError(f"stream {stream_id} has no response")

    def status(self, stream_id: int) -> bytes:
        """The response's :status."""
        return self.responses(stream_id)[b":status"]

    def body(self, stream_id: int) -> bytes:
        """The response's body so far."""
        return b"".join(event.data for event in self.events if isinstance(event, DataReceived) and event.stream_id == stream_id)

    def trailers(self, stream_id: int) -> dict[bytes, bytes]:
        """The response's trailers, empty without them."""
        for event in self.events:
            if isinstance(event, TrailersReceived) and event.stream_id == stream_id:
                return dict(event.headers)
        return {}

    def done(self, stream_id: int) -> bool:
        """True when the response is complete."""
        return any(isinstance(event, StreamEnded) and event.stream_id == stream_id for event in self.events)

    def resets(self) -> dict[int, int]:
        """Stream -> error code, of streams that the server has reset."""
        return {event.stream_id: int(event.error_code or 0) for event in self.events if isinstance(event, StreamReset)}

    def goodbye(self) -> int | None:
        """The error code of the server's GOAWAY."""
        for event in self.events:
            if isinstance(event, ConnectionTerminated):
                return int(event.error_code or 0)
        return None


def connected(engine: EngineFactory, window: int = 65_535) -> tuple[Client, Notebook]:
    """A client that has exchanged SETTINGS, and the application of its connection."""
    factory = Notebooks()
    client = Client(Http2Connection(engine, [factory], PEER, 0), window)
    return client, factory.last
