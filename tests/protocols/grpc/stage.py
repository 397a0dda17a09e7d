"""A gRPC client in memory; the test plays the gateway: it checks commands and answers with events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import Message as Proto

from domain.admin.group import GroupFound, QueryGroup
from domain.command import Command
from domain.event import Event, Leased
from domain.message import record as records
from domain.message.message import Message
from domain.message.receipt import Receipt
from domain.topic.topic import Group
from protocols.grpc.adapter import GrpcFactory
from protocols.grpc.application import GrpcApplication
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.node_settings import GrpcSettings
from protocols.http2.application import Reply
from protocols.http2.connection import Http2Connection
from protocols.http2.engine import EngineFactory
from protocols.http2.head import Headers
from protocols.setting import Setting
from tests.protocols.http2.peer import PEER, Client
from tests.simulation.kit.entropy import NoEntropy

Kind = TypeVar("Kind", bound=Command)
SERVICE = "/apache.rocketmq.v2.MessagingService/"
WALL_MS = 1_790_000_000_123
MS = 1_000_000
SECOND = 1_000_000_000


SETTING = Setting("DefaultCluster", "broker-a", "10.1.2.3", {"grpc": 8081}, NoEntropy(), lambda: WALL_MS)


def prefixed(message: bytes) -> bytes:
    """One message with its prefix."""
    return b"\x00" + len(message).to_bytes(4, "big") + message


def cut(data: bytes) -> list[bytes]:
    """The messages of a response."""
    out = []
    while data:
        assert data[0] == 0
        length = int.from_bytes(data[1:5], "big")
        assert len(data) >= 5 + length
        out.append(data[5 : 5 + length])
        data = data[5 + length :]
    return out


class Stage:
    """One client on one connection. `commands` are the unanswered ones."""

    def __init__(self, engine: EngineFactory, client_id: str = "client-1") -> None:
        self.factory = GrpcFactory(SETTING, GrpcSettings())
        self.client_id = client_id
        self.now = SECOND
        self.connect(engine)

    def connect(self, engine: EngineFactory) -> None:
        """A new connection of the same client."""
        opened: list[GrpcApplication] = []

        class Factory:
            name = "grpc"

            def open(_, reply: Reply, peer: object, now: int) -> GrpcApplication:  # noqa: N805
                opened.append(self.factory.open(reply, PEER, now))
                return opened[0]

        self.server = Http2Connection(engine, [Factory()], PEER, self.now)
        self.client = Client(self.server)
        (self.application,) = opened

    @property
    def commands(self) -> list[Command]:
        return self.client.commands

    def take(self, kind: type[Kind]) -> Kind:
        """The one unanswered command, which is of this kind."""
        (command,) = self.client.commands
        self.client.commands.clear()
        assert isinstance(command, kind)
        return command

    def expire_one(self, at: int, kind: type[Kind]) -> Kind:
        """The one command of `expire`, which is of this kind."""
        (command,) = self.expire(at)
        assert isinstance(command, kind)
        return command

    def take_all(self) -> list[Command]:
        """All unanswered commands."""
        commands = list(self.client.commands)
        self.client.commands.clear()
        return commands

    def headers(self, timeout: str = "", extra: Headers | None = None) -> Headers:
        """Metadata as an SDK sends it."""
        fields = [
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
            (b"x-mq-language", b"JAVA"),
            (b"x-mq-client-version", b"5.2.0"),
        ]
        if self.client_id:
            fields.append((b"x-mq-client-id", self.client_id.encode()))
        if timeout:
            fields.append((b"grpc-timeout", timeout.encode()))
        return fields + (extra or [])

    def call(self, name: str, request: Proto, timeout: str = "", extra: Headers | None = None) -> int:
        """Send a whole unary request -> its stream id."""
        self.client.now = self.now
        return self.client.request(SERVICE + name, prefixed(request.SerializeToString()), self.headers(timeout, extra))

    def give(self, event: Event) -> None:
        """Answer with an event."""
        self.server.answer(event, self.now)
        self.client.exchange()

    def messages(self, stream: int) -> list[bytes]:
        """Messages of a response so far."""
        return cut(self.client.body(stream))

    def grpc_status(self, stream: int) -> tuple[int, str]:
        """grpc-status and grpc-message, from the trailers, or from the headers of a response without a body."""
        fields = self.client.trailers(stream) or dict(self.client.responses(stream))
        return int(fields[b"grpc-status"]), fields.get(b"grpc-message", b"").decode()

    def open_telemetry(self) -> int:
        """Open a Telemetry stream -> its stream id."""
        self.client.now = self.now
        stream = self.client.connection.get_next_available_stream_id()
        fields = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":authority", b"g"),
            (b":path", (SERVICE + "Telemetry").encode()),
        ]
        self.client.connection.send_headers(stream, fields + self.headers())
        self.client.exchange()
        return stream

    def notify(self, stream: int, settings: pb.Settings) -> None:
        """Send settings on a Telemetry stream."""
        message = pb.TelemetryCommand(settings=settings).SerializeToString()
        self.client.connection.send_data(stream, prefixed(message))
        self.client.exchange()

    def expire(self, at: int) -> Sequence[Command]:
        """Advance the clock to `at`, through every deadline -> the commands of `expire`."""
        commands: list[Command] = []
        while True:
            due = self.server.deadline()
            if due is None or due > at:
                self.now = at
                return commands
            self.now = max(due, self.now)
            commands += self.server.expire(self.now)
            self.client.connection.ping(bytes(8))
            self.client.now = self.now
            self.client.exchange()


def consumer(kind: pb.ClientType = pb.SIMPLE_CONSUMER, group: str = "g", topic: str = "t") -> pb.Settings:
    """Settings of a consumer."""
    settings = pb.Settings(client_type=kind)
    settings.request_timeout.seconds = 3
    settings.subscription.group.name = group
    entry = settings.subscription.subscriptions.add()
    entry.topic.name = topic
    entry.expression.type = pb.TAG
    entry.expression.expression = "*"
    return settings


def message(body: bytes = b"body", message_id: str = "01A0", topic: str = "t") -> pb.Message:
    """A valid message for SendMessage."""
    out = pb.Message(body=body)
    out.topic.name = topic
    out.system_properties.message_id = message_id
    out.system_properties.message_type = pb.NORMAL
    out.system_properties.body_encoding = pb.IDENTITY
    out.system_properties.born_timestamp.seconds = 1_780_000_000
    out.system_properties.born_timestamp.nanos = 456_000_000
    out.system_properties.born_host = "device"
    return out


def leased(
    body: bytes, properties: bytes = b"UNIQ_KEY\x01ID1\x02", offset: int = 7, attempt: int = 1, sys_flag: int = 0
) -> Leased:
    """A leased message, as the store returns it."""
    sent = Message("t", body, properties, queue_id=3, sys_flag=sys_flag, born_ms=1_780_000_000_456)
    record = records.encode(sent, offset, 4_096, 1_790_000_000_000, b"\x0a\x01\x02\x03\x00\x00\x2a\x9f")
    return Leased(record, Receipt(offset, WALL_MS, 30_000, 0, 0, "broker-a", 3, offset, 4_096), attempt)


def telling(engine: EngineFactory, settings: pb.Settings) -> tuple[Stage, int]:
    """A client that has sent its settings on a Telemetry stream."""
    stage = Stage(engine)
    stream = stage.open_telemetry()
    stage.notify(stream, settings)
    return stage, stream


def with_settings(
    engine: EngineFactory, kind: pb.ClientType = pb.SIMPLE_CONSUMER, group: Group | None = None
) -> tuple[Stage, int]:
    """A consumer that has exchanged its settings; of group g, unless another one is given."""
    stage, stream = telling(engine, consumer(kind))
    _, query = stage.take_all()
    assert isinstance(query, QueryGroup)
    stage.give(GroupFound(query.ticket, group or Group("g")))
    return stage, stream


def poll(auto_renew: bool = False, queue_id: int = 2) -> pb.ReceiveMessageRequest:
    request = pb.ReceiveMessageRequest(batch_size=40, auto_renew=auto_renew)
    request.group.name = "g"
    request.message_queue.topic.name = "t"
    request.message_queue.id = queue_id
    if not auto_renew:
        request.invisible_duration.seconds = 30
    request.long_polling_timeout.seconds = 15
    return request
