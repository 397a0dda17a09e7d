"""One RPC in progress, and what its verb may ask of the connection that carries it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, final

from domain.address import in_namespace
from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.principal import Principal
from protocols.adapter import Peer
from protocols.grpc.framing import Messages
from protocols.grpc.inquiry import Inquiries
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.renewal import Renewals
from protocols.grpc.session import Sessions
from protocols.setting import Setting


@final
class Call:
    """One stream of the service.

    deadline    monotonic ns by grpc-timeout, -1: none
    namespace   the metadata x-mq-namespace, for resources that name none themselves
    origin      stored properties that tell where its messages come from
    principal   who makes it, None where access is not controlled
    state       what the verb keeps between its command and the event
    """

    __slots__ = (
        "client_id", "deadline", "language", "messages", "namespace", "origin", "principal", "request", "state", "stream_id",
        "verb", "version",
    )  # fmt: skip

    def __init__(self, stream_id: int, verb: Verb, client_id: str, origin: bytes, deadline: int, messages: Messages) -> None:
        self.stream_id = stream_id
        self.verb = verb
        self.client_id = client_id
        self.origin = origin
        self.deadline = deadline
        self.messages = messages
        self.language = "OTHER"
        self.version = ""
        self.namespace = ""
        self.principal: Principal | None = None
        self.request: bytes | None = None
        self.state: object = None

    def named(self, resource: pb.Resource) -> str:
        """The stored name of a topic or group; one in a namespace that cannot be one has none, "", which no check lets pass."""
        space: str = resource.resource_namespace or self.namespace
        name: str = resource.name
        return in_namespace(space, name) if space else name


class Desk(Protocol):
    """One connection's share of the service, as verbs see it."""

    setting: Setting
    peer: Peer
    sessions: Sessions
    renewals: Renewals
    inquiries: Inquiries

    def ticket(self, call: Call) -> object:
        """What a command of `call` carries."""

    def reply(self, call: Call, message: bytes) -> None:
        """The one answer of a unary call."""

    def reply_frames(self, call: Call, frames: bytes) -> None:
        """All answers of a server-streaming call, each with its prefix, and the end."""

    def refuse(self, call: Call, code: int, text: str) -> None:
        """The answer that is nothing but a Status, for a refusal of ours, which counts; ends the call with grpc-status 0."""

    def failed(self, call: Call, failure: Failure) -> None:
        """The same for what the gateway has refused, and counted."""

    def push(self, call: Call, message: bytes) -> None:
        """One more message on an open stream."""

    def close(self, call: Call) -> None:
        """End an open stream; what was wrong, if anything, it has been told."""

    def fail(self, call: Call, grpc_status: int, text: str, counted: bool = False) -> None:
        """End the call with a grpc-status, for what is wrong below the service. `counted`: the gateway has refused it."""

    def gone(self, call: Call) -> bool:
        """True when nobody waits for the call's answer any more."""

    def unread(self) -> int:
        """Bytes of answers, over all calls of the connection, that its client has not taken yet."""

    def telemetry(self, client_id: str) -> Call | None:
        """The Telemetry stream of a client, when it has one on this connection."""

    def owe(self, command: Command) -> None:
        """A command that an event made necessary; it is given out at the next opportunity."""


class Verb(NamedTuple):
    """One RPC.

    begin       takes one whole request message -> commands. Raises google.protobuf's DecodeError for what is not one
    finish      the event of a command
    streaming   requests are handled as they arrive, and the response is open from the start
    """

    name: str
    begin: Callable[[Desk, Call, bytes, int], Sequence[Command]]
    finish: Callable[[Desk, Call, Event, int], None]
    streaming: bool = False
