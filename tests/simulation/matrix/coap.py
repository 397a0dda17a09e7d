"""CoAP over datagrams and over streams: every method of its resources, those of the publish-subscribe draft among them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from domain.access.principal import GATEWAY
from domain.address import host_bytes
from domain.admin.data_topic import DataTopicIds, ListDataTopics, MakeDataTopic
from domain.command import Command
from domain.event import Event
from domain.topic.data_topic import TopicProperties
from gateway.connection.client_connection import ClientConnection
from protocols.adapter import Peer
from protocols.coap.adapter import CoapStreamAdapter
from protocols.coap.message import cbor, message, option, signal
from protocols.coap.message.frame import StreamFraming
from protocols.coap.message.message import Pairs
from protocols.coap.resources.wellknown import links
from tests.connection_driver import StrictDriver
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.matrix.place import GROUP_NAME, TOPIC_NAME, Person, Place
from tests.simulation.test_forbidden import RECEIPT

NOT_AUTHENTICATED: Final = "4.01"
NOT_ALLOWED: Final = "4.03"
CODES: Final = range(1, 32)
"""Codes that requests can have."""
OBSERVE: Final = (option.OBSERVE, b"")


@dataclass(frozen=True, slots=True)
class Request:
    """One request on the path `/mq/sim/a`, on `/mq/sim` where it has a group, or on a resource of the publish-subscribe draft.

    operation   the row of the matrix that it belongs to
    pairs       options besides the path
    body        the payload
    fresh       True: below the path, where no value is
    code        the method of a request on `on`
    on          COLLECTION, CONFIGURATION or DATA, of the topic `sim/a`; "": it is none of these
    """

    operation: str
    pairs: tuple[tuple[int, bytes], ...] = ()
    body: bytes = b""
    fresh: bool = False
    code: int = 0
    on: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        """Its levels."""
        grouped = any(number == option.URI_QUERY and value.startswith(b"group=") for number, value in self.pairs)
        return ("mq", TOPIC_NAME) if grouped else ("mq", TOPIC_NAME, "a")


COLLECTION: Final = "/ps"
CONFIGURATION: Final = "/ps/{id}"
DATA: Final = "/ps/data/{id}"
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
"""Method -> its requests on `/mq` by name."""


def _of_topics(on: str, *given: tuple[int, str, str, bytes]) -> dict[str, Request]:
    """Requests on a resource: method, name, operation, payload."""
    return {
        f"{name.partition(' ')[0]} {on}{''.join(name.partition(' ')[1:])}": Request(
            operation, (OBSERVE,) if "Observe" in name else (), body, code=code, on=on
        )
        for code, name, operation, body in given
    }


OF_TOPICS: Final[Mapping[str, Mapping[str, Request]]] = {
    COLLECTION: _of_topics(
        COLLECTION,
        (message.GET, "GET", "list topics of CoAP", b""),
        (message.FETCH, "FETCH", "list topics of CoAP", b"\xa0"),
        (message.POST, "POST", "make or change a topic of CoAP", b""),
    ),
    CONFIGURATION: _of_topics(
        CONFIGURATION,
        (message.GET, "GET", "read a topic of CoAP", b""),
        (message.FETCH, "FETCH", "read a topic of CoAP", b"\x80"),
        (message.POST, "POST", "make or change a topic of CoAP", b"\xa0"),
        (message.IPATCH, "iPATCH", "make or change a topic of CoAP", b"\xa0"),
        (message.DELETE, "DELETE", "make or change a topic of CoAP", b""),
    ),
    DATA: _of_topics(
        DATA,
        (message.GET, "GET", "read the latest value", b""),
        (message.GET, "GET with Observe", "subscribe", b""),
        (message.PUT, "PUT", "send", b"x"),
        (message.DELETE, "DELETE", "remove the latest value", b""),
    ),
}
"""Resource of the publish-subscribe draft -> its requests by name."""
ALL: Final[Sequence[Mapping[str, Request]]] = (*REQUESTS.values(), *OF_TOPICS.values())
TARGETS: Final = {"/mq", COLLECTION, "/.well-known/core"}
"""Resources that the requests are about, and the one that everybody may read."""


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

    def probe(self, code: int, who: Person, on: str = "") -> str:
        """The answer to a request with any code."""
        return self._ask(code, Request("", on=on), who)

    def ask(self, request: Request, who: Person, owner: Person | None = None) -> str:
        """Send a request -> the code of the response, or `done` for a group, which may have no message."""
        code = request.code or next(code for code, group in REQUESTS.items() if request in group.values())
        found = self._ask(code, request, who)
        return "done" if _GROUP in request.pairs and found in ("2.05", "4.04") else found

    def _ask(self, code: int, request: Request, who: Person) -> str:
        serial = self.place.serial()
        levels = (*request.path, str(serial)) if request.fresh else request.path
        if request.on:
            levels = tuple(request.on.strip("/").replace("{id}", self._topic()).split("/"))
            if request.on == COLLECTION and code == message.POST:
                made = cbor.encode({0: f"{TOPIC_NAME}/{serial}", 2: "core.ps.data"})
                request = replace(request, body=made)
        pairs: Pairs = [(option.URI_PATH, level.encode()) for level in levels] + list(request.pairs)
        source = serial.to_bytes(8, "big") if who.name else b""
        port = 1_024 + serial
        peer = Peer(self.host, port, host_bytes(self.host, port), principal=who.name, source=source)
        return (
            self._datagram(code, pairs, request, peer) if self.transport == "UDP" else self._stream(code, pairs, request, peer)
        )

    def _topic(self) -> str:
        """The id of the topic `sim/a`, which the gateway makes when there is none."""
        name = f"{TOPIC_NAME}/a"
        recorder = EventRecorder("coap")
        commands: Sequence[Command] = (
            ListDataTopics(1, name),
            MakeDataTopic(2, name, TopicProperties()),
            ListDataTopics(3, name),
        )
        for command in commands:
            command.principal = GATEWAY
            self._gate.handle(recorder.connection, command)
            self.place.world.clock.run_for(50)
            for event in recorder.take():
                if isinstance(event, DataTopicIds) and event.ids:
                    return event.ids[0]
        raise AssertionError("no topic was made")

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
