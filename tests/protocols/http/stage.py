"""An HTTP connection in memory, with a gateway of fixed answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from domain.access.access import Credentials, Password
from domain.access.principal import Principal
from domain.command import Command, Send
from domain.errors import ErrorCode, Failure
from domain.event import Event, Sent
from domain.message.message import Message, Placed
from domain.message.record import encode
from domain.ports import Entropy
from gateway.node.settings_tables import read
from protocols.adapter import Peer
from protocols.host_shares import HostShares
from protocols.http.adapter import HttpAdapter, HttpApplicationFactory
from protocols.http.settings import HttpSettings
from protocols.setting import Setting, ignore_grant
from tests.simulation.kit.entropy import FixedEntropy

NOW_MS = 1_795_230_000_000
PEER = Peer("10.0.0.9", 4711, b"\x0a\x00\x00\x09\x00\x00\x12\x67")
TLS_PEER = PEER._replace(tls=True)
SECOND = 1_000_000_000
WORK_NS = SECOND
"""Time in which all work on a request is done; shorter than every deadline of a peer."""


class OnePassword:
    """An authority that knows one password."""

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        """The principal `u` for the password `p`."""
        if credentials == Password("u", b"p"):
            return Principal("u", host)
        return Failure(ErrorCode.NOT_AUTHENTICATED, "no")

    def converse(self, method: str, host: str, entropy: Entropy) -> None:
        """No exchange is offered."""


Grant = Callable[[str, str, int], None]


def setting(uploads: HostShares | None = None, authority: OnePassword | None = None, grant: Grant = ignore_grant) -> Setting:
    """The facts of a node."""
    shares = uploads or HostShares()
    return Setting("c", "broker-a", "127.0.0.1", {}, FixedEntropy(), lambda: NOW_MS, authority, uploads=shares, grant=grant)


def adapter(
    uploads: HostShares | None = None,
    authority: OnePassword | None = None,
    grant: Grant = ignore_grant,
    **options: Any,
) -> HttpAdapter:
    """The HTTP/1.1 adapter."""
    return HttpAdapter(setting(uploads, authority, grant), read(HttpSettings, "http", options, {}))


def factory(**options: object) -> HttpApplicationFactory:
    """The factory of HTTP on HTTP/2."""
    return HttpApplicationFactory(setting(), read(HttpSettings, "http", options, {}))


def sent(command: Send) -> Sent:
    """Answer a Send: each message stored in queue 3, from offset 40 on."""
    places = [Placed(3, 40 + at, 1000 + at, NOW_MS, f"ID{at}") for at in range(len(command.messages))]
    return Sent(command.ticket, places)


def record(
    topic: str = "orders", body: bytes = b"hello", properties: bytes = b"", offset: int = 40, sys_flag: int = 0
) -> bytes:
    """A stored record in queue 3."""
    message = Message(topic, body, properties, queue_id=3, sys_flag=sys_flag)
    return encode(message, offset, 5000, NOW_MS, b"\x7f\x00\x00\x01\x00\x00\x2a\x9f")


class Answer:
    """One parsed response."""

    def __init__(self, status: int, fields: list[tuple[str, str]], body: bytes) -> None:
        self.status = status
        self.fields = fields
        self.body = body

    def field(self, name: str) -> str | None:
        """The value of a field, None when it is absent."""
        return next((value for key, value in self.fields if key == name), None)

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def parse(data: bytes, heads: Sequence[bool] = ()) -> list[Answer]:
    """Complete HTTP/1.1 responses in `data`. `heads`: which of them answer HEAD."""
    out: list[Answer] = []
    while data:
        head, mark, data = data.partition(b"\r\n\r\n")
        assert mark
        lines = head.split(b"\r\n")
        status = int(lines[0].split(b" ")[1])
        fields = [(name.decode(), value.decode("latin-1")) for name, _, value in (line.partition(b": ") for line in lines[1:])]
        length = next((int(value) for name, value in fields if name == "content-length"), 0)
        if len(out) < len(heads) and heads[len(out)]:
            length = 0
        assert len(data) >= length
        out.append(Answer(status, fields, data[:length]))
        data = data[length:]
    return out


Reaction = Callable[[Command], Event | None]


def store_all(command: Command) -> Event | None:
    """Answers Send; other commands stay unanswered."""
    if not isinstance(command, Send) or not command.wait:
        return None
    return Sent(command.ticket, []) if command.early else sent(command)


class Client:
    """Sends bytes, answers the commands with `react`, and collects the output."""

    def __init__(self, react: Reaction = store_all, made: HttpAdapter | None = None, peer: Peer = PEER, **options: Any) -> None:
        self.connection = (made or adapter(**options)).connect(peer, 0)
        self.react = react
        self.commands: list[Command] = []
        self.output = b""

    def send(self, data: bytes, now: int = 0) -> Client:
        """Pass bytes to the connection, and answer its commands, in as many turns as the connection asks for."""
        self.take(self.connection.receive(data, now), now)
        while (due := self.connection.deadline()) is not None and due <= now + WORK_NS:
            self.take(self.connection.expire(max(now, due)), now)
        return self

    def take(self, commands: Sequence[Command], now: int = 0) -> None:
        """Answer the commands of one turn, and collect the output."""
        for command in commands:
            self.commands.append(command)
            event = self.react(command)
            if event is not None:
                self.connection.answer(event, now)
        self.drain()

    def drain(self) -> None:
        """Collect the output."""
        self.output += b"".join(self.connection.outgoing())

    def answers(self) -> list[Answer]:
        """Responses so far."""
        return parse(self.output)

    def ask(self, method: str, target: str, fields: dict[str, str] | None = None, body: bytes = b"") -> Answer:
        """Send one whole request -> its response."""
        self.output = b""
        self.send(request(method, target, fields, body))
        return parse(self.output, [method == "HEAD"])[0]

    def message(self) -> Message:
        """The only message of the last Send."""
        command = self.commands[-1]
        assert isinstance(command, Send)
        (message,) = command.messages
        return message


def request(method: str, target: str, fields: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    """A request with Host and, when it has a body, Content-Length."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in (fields or {}).items()]
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


EVENT_FIELDS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
EVENT = request("POST", "/ce/orders", {**EVENT_FIELDS, "Content-Type": "text/plain"}, b"hello")
