"""One RPC in progress, and what its method may ask of the connection that carries it."""

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
    state       what the method keeps between its command and the event
    """

    __slots__ = (
        "client_id",
        "deadline",
        "language",
        "messages",
        "method",
        "namespace",
        "origin",
        "principal",
        "request",
        "state",
        "stream_id",
        "version",
    )  # fmt: skip

    def __init__(
        self, stream_id: int, method: Method, client_id: str, origin: bytes, deadline: int, messages: Messages
    ) -> None:
        self.stream_id = stream_id
        self.method = method
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


class CallContext(Protocol):
    """What one connection offers to the methods: the answers of their calls, and what its clients share."""

    setting: Setting
    peer: Peer
    sessions: Sessions
    renewals: Renewals
    inquiries: Inquiries

    def ticket(self, call: Call) -> object:
        """The ticket of a command of `call`."""

    def reply(self, call: Call, message: bytes) -> None:
        """Answer a unary call."""

    def reply_frames(self, call: Call, frames: bytes) -> None:
        """Answer a server-streaming call with all its messages, each with its prefix, and end it."""

    def refuse(self, call: Call, code: int, text: str) -> None:
        """Answer with a Status alone, for a refusal by the adapter, which is counted. Ends the call with grpc-status 0."""

    def reply_failure(self, call: Call, failure: Failure) -> None:
        """Answer with a Status alone, for a refusal by the gateway, which has counted it. Ends the call with grpc-status 0."""

    def push(self, call: Call, message: bytes) -> None:
        """Send one more message on an open stream."""

    def close(self, call: Call) -> None:
        """End an open stream with grpc-status 0. The client has been sent the Status of any error."""

    def fail(self, call: Call, grpc_status: int, text: str, counted: bool = False) -> None:
        """End the call with a grpc-status, for an error below the service. `counted`: the gateway has counted the refusal."""

    def is_closed(self, call: Call) -> bool:
        """True when the call has ended: its stream was reset, or it was answered."""

    def unsent_bytes(self) -> int:
        """Bytes of answers, over all calls of the connection, that its client has not read yet."""

    def telemetry(self, client_id: str) -> Call | None:
        """The Telemetry stream of a client on this connection, None when it has none."""

    def enqueue(self, command: Command) -> None:
        """Send a command that an event has made necessary, at the next opportunity."""


class Method(NamedTuple):
    """One RPC.

    begin       takes one whole request message -> commands. Raises google.protobuf's DecodeError for what is not one
    finish      the event of a command
    streaming   requests are handled as they arrive, and the response is open from the start
    """

    name: str
    begin: Callable[[CallContext, Call, bytes, int], Sequence[Command]]
    finish: Callable[[CallContext, Call, Event, int], None]
    streaming: bool = False
