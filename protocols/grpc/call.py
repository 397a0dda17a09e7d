"""One call, its method, and the interface of the connection that methods use."""

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
from protocols.uploads import UploadShare


@final
class Call:
    """One call: one stream of the service.

    stream_id   the HTTP/2 stream
    method      the called method
    client_id   the metadata x-mq-client-id; "" when it is missing or cannot be used
    language    the metadata x-mq-language; read for streaming calls and calls with a grpc-timeout only
    version     the metadata x-mq-client-version; read like `language`
    namespace   the metadata x-mq-namespace, for resources without a namespace
    origin      stored properties for its messages: protocol and client id
    principal   the authenticated caller; None without access control
    deadline    monotonic ns from grpc-timeout; -1: none
    messages    collects the parts of the request
    request     the message of a unary call that has not ended
    share       bytes of an incomplete message of a streaming call; None: there was none
    state       what the method keeps from the request for the answer
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
        "share",
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
        self.share: UploadShare | None = None
        self.state: object = None

    def named(self, resource: pb.Resource) -> str:
        """The stored name of a topic or group; "" when it cannot be combined with its namespace. No check accepts ""."""
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
    """One method of the service.

    name        its name in the request path
    begin       one complete request message -> commands. Raises google.protobuf's DecodeError for malformed bytes
    finish      handles the event of a command
    streaming   requests are handled as they arrive, and the response headers are sent at once
    """

    name: str
    begin: Callable[[CallContext, Call, bytes, int], Sequence[Command]]
    finish: Callable[[CallContext, Call, Event, int], None]
    streaming: bool = False
