"""CoAP over datagrams and over streams: every method of its resources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from domain.address import host_bytes
from domain.command import Command
from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from protocols.adapter import Peer
from protocols.coap import message, option, signal
from protocols.coap.adapter import CoapStreamAdapter
from protocols.coap.frame import StreamFraming
from protocols.coap.message import Pairs
from protocols.coap.wellknown import links
from tests.connection_driver import StrictDriver
from tests.simulation.matrix.place import GROUP_NAME, TOPIC_NAME, Person, Place
from tests.simulation.test_forbidden import RECEIPT

NOT_AUTHENTICATED: Final = "4.01"
NOT_ALLOWED: Final = "4.03"
CODES: Final = range(1, 32)
"""Codes that requests can have."""
OBSERVE: Final = (option.OBSERVE, b"")


@dataclass(frozen=True, slots=True)
class Request:
    """One request on the path `/mq/sim/a`, or on `/mq/sim` where it has a group.

    operation   the row of the matrix that it belongs to
    pairs       options besides the path
    body        the payload
    fresh       True: below the path, where no value is
    """

    operation: str
    pairs: tuple[tuple[int, bytes], ...] = ()
    body: bytes = b""
    fresh: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """Its levels."""
        grouped = any(number == option.URI_QUERY and value.startswith(b"group=") for number, value in self.pairs)
        return ("mq", TOPIC_NAME) if grouped else ("mq", TOPIC_NAME, "a")


_GROUP: Final = (option.URI_QUERY, f"group={GROUP_NAME}".encode())
_RECEIPT: Final = (option.URI_QUERY, f"receipt={RECEIPT}".encode())
_CBOR: Final = (option.CONTENT_FORMAT, b"\x3c")
_IF_MATCH: Final = (option.IF_MATCH, b"")

REQUESTS: Final[Mapping[int, Mapping[str, Request]]] = {
    message.GET: {
        "GET": Request("read the latest value"),
        "GET with Observe": Request("subscribe", (OBSERVE,)),
        "GET for a group": Request("receive", (_GROUP,)),
        "GET for a group with Observe": Request("receive", (OBSERVE, _GROUP)),
    },
    message.POST: {
        "POST": Request("send", (), b"x"),
        "POST with If-Match": Request("change a value that is known", (_IF_MATCH,), b"x"),
    },
    message.PUT: {
        "PUT": Request("send", (), b"x"),
        "PUT with If-None-Match": Request("change a value that is known", ((option.IF_NONE_MATCH, b""),), b"x", True),
    },
    message.DELETE: {
        "DELETE": Request("remove the latest value"),
        "DELETE with If-Match": Request("change a value that is known", (_IF_MATCH,)),
        "DELETE of a lease": Request("acknowledge", (_GROUP, _RECEIPT)),
    },
    message.FETCH: {
        "FETCH with Observe": Request("subscribe", (OBSERVE, _CBOR), b"\xa0"),
        "FETCH for a group": Request("receive", (_GROUP, _CBOR), b"\xa0"),
    },
}
"""Method -> its requests by name."""
TARGETS: Final = {"/mq", "/.well-known/core"}
"""Resources that `REQUESTS` are about, and the one that everybody may read."""


def targets() -> set[str]:
    """The resources that a server tells of itself (RFC 6690)."""
    return set(re.findall(r"(?:^|,)<([^>]*)>", links([]).decode()))


class Coap(StrictDriver):
    """Asks over `UDP` or `TCP`, each time as a new peer; who asks is named by its certificate.

    host   the address of the peers
    """

    host = "10.0.0.7"

    def __init__(self, place: Place, transport: str) -> None:
        self.place = place
        self.transport = transport
        parts = place.world.parts
        assert parts is not None
        self._gate = parts.gate
        now = place.world.clock.monotonic_ns()
        self._endpoint = parts.adapters.datagrams["coap"].bind(now)
        adapter = parts.adapters.streams["coap"]
        assert isinstance(adapter, CoapStreamAdapter)
        self._adapter = adapter
        self._events: list[Event] = []

    def answer(self, event: Event) -> None:
        """Keep an event until the connection takes it."""
        self._events.append(event)

    def probe(self, code: int, who: Person) -> str:
        """The answer to a request with any code."""
        return self._ask(code, Request(""), who)

    def ask(self, request: Request, who: Person, owner: Person | None = None) -> str:
        """Send a request -> the code of the response, or `done` for a group, which may have no message."""
        code = next(code for code, group in REQUESTS.items() if request in group.values())
        found = self._ask(code, request, who)
        return "done" if _GROUP in request.pairs and found in ("2.05", "4.04") else found

    def _ask(self, code: int, request: Request, who: Person) -> str:
        serial = self.place.serial()
        levels = (*request.path, str(serial)) if request.fresh else request.path
        pairs: Pairs = [(option.URI_PATH, level.encode()) for level in levels] + list(request.pairs)
        source = serial.to_bytes(8, "big") if who.name else b""
        port = 1_024 + serial
        peer = Peer(self.host, port, host_bytes(self.host, port), principal=who.name, source=source)
        return (
            self._datagram(code, pairs, request, peer) if self.transport == "UDP" else self._stream(code, pairs, request, peer)
        )

    def _datagram(self, code: int, pairs: Pairs, request: Request, peer: Peer) -> str:
        clock, endpoint = self.place.world.clock, self._endpoint
        connection = ClientConnection("coap", self, shared=True)
        token = self.place.serial().to_bytes(4, "big")
        echo: Pairs = []
        found: message.Packet | None = None
        for mid in (1, 2):
            data = message.encode(message.CON, code, mid, token, message.join([*pairs, *echo]), request.body)
            self._run(connection, endpoint.receive(data, peer, clock.monotonic_ns()))
            found = None
            for _ in range(100):
                for event in self._taken():
                    endpoint.answer(event, clock.monotonic_ns())
                due = endpoint.deadline()
                if due is not None and due <= clock.monotonic_ns():
                    self._run(connection, endpoint.expire(clock.monotonic_ns()))
                for each, _ in endpoint.outgoing():
                    packet = message.decode(each)
                    if packet is not None and packet.code and packet.token == token:
                        found = found or packet
                if found is not None:
                    break
                clock.run_for(5)
            assert found is not None, "there is no response"
            echo = [(option.ECHO, value) for number, value in found.options if number == option.ECHO]
            if found.code != message.UNAUTHORIZED or not echo:
                break
        assert found is not None
        return f"{found.code >> 5}.{found.code & 31:02}"

    def _stream(self, code: int, pairs: Pairs, request: Request, peer: Peer) -> str:
        clock = self.place.world.clock
        served = self._adapter.connect(peer, clock.monotonic_ns())
        client = StreamFraming(1 << 24)
        connection = ClientConnection("coap", self)
        hello = client.encode(signal.CSM, b"", b"", b"")
        data = hello + client.encode(code, b"tk", message.join(pairs), request.body)
        self._run(connection, served.receive(data, clock.monotonic_ns()))
        for _ in range(100):
            for event in self._taken():
                served.answer(event, clock.monotonic_ns())
            due = served.deadline()
            if due is not None and due <= clock.monotonic_ns():
                self._run(connection, served.expire(clock.monotonic_ns()))
            for each in served.outgoing():
                client.feed(each)
            for frame in iter(client.take, None):
                if frame.token == b"tk":
                    self._run(connection, served.receive(b"", clock.monotonic_ns()))
                    return f"{frame.code >> 5}.{frame.code & 31:02}"
            clock.run_for(5)
        raise AssertionError("there is no response")

    def _taken(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _run(self, connection: ClientConnection, commands: Sequence[Command]) -> None:
        for command in commands:
            self._gate.handle(connection, command)
