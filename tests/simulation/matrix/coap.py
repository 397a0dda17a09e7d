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
from domain.topic.data_topic import TopicProperties
from protocols.adapter import Peer
from protocols.coap.message import cbor, message, option
from protocols.coap.message.message import Pairs
from protocols.coap.resources.wellknown import links
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.protocols.coap.broker import Device, Devices, Streamed
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


class Coap:
    """Asks over `UDP` or `TCP`, each time as a new peer; who asks is named by its certificate.

    host   the address of the peers
    """

    host = "10.0.0.7"

    def __init__(self, place: Place, transport: str) -> None:
        self.place = place
        self.transport = transport
        assert place.world.parts is not None
        self._parts, self._clock = place.world.parts, place.world.clock
        self._devices = Devices(self._parts, self._clock)

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
        source = serial.to_bytes(8, "big") if who.name else b""
        port = 1_024 + serial
        peer = Peer(self.host, port, host_bytes(self.host, port), principal=who.name, source=source)
        path, pairs = "/".join(levels), list(request.pairs)
        if self.transport == "UDP":
            found = Device(self._devices, peer).response(code, path, request.body, pairs).code
        else:
            found = self._streamed(code, path, request.body, pairs, peer)
        return f"{found >> 5}.{found & 31:02}"

    def _streamed(self, code: int, path: str, body: bytes, pairs: Pairs, peer: Peer) -> int:
        """The code of the response over a stream of its own."""
        stream = Streamed(self._parts, self._clock, peer)
        frames = stream.ask(code, path, body, pairs=pairs)
        for _ in range(100):
            if any(each.token == b"tk" for each in frames):
                break
            stream.run(5)
            frames += stream.frames()
        stream.close()
        return next(each.code for each in frames if each.token == b"tk")

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
            self._parts.gate.handle(recorder.connection, command)
            self._clock.run_for(50)
            for event in recorder.take():
                if isinstance(event, DataTopicIds) and event.ids:
                    return event.ids[0]
        raise AssertionError("no topic was made")
