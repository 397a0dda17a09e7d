"""One call, its method, and the interface of the connection that methods use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, final

from domain import limits
from domain.address import in_namespace
from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.principal import Principal
from protocols.adapter import Peer
from protocols.grpc import wire
from protocols.grpc.backlog import Backlog
from protocols.grpc.framing import Messages
from protocols.grpc.inquiry import Inquiries
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.renewal import Renewals
from protocols.grpc.session import Sessions
from protocols.host_shares import HostShare
from protocols.setting import Setting

OTHER_BYTES_MAX: Final = 512 * 1024
"""Bytes of one request message without its bodies."""
MESSAGE_BYTES_MAX: Final = limits.BATCH_BYTES_MAX + OTHER_BYTES_MAX
"""Bytes of one request message with bodies, or with the stacks of a client."""
FIELDS_MAX: Final = 512
"""Fields at the top of one request message, so also its messages, entries or names."""


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
    waits       True: messages of a streaming call wait for a later turn
    half_closed True: a streaming call gets no more messages
    share       bytes of a streaming call that are not handled; None: there were none
    state       data of the request that the method keeps for the answer
    """

    __slots__ = (
        "client_id",
        "deadline",
        "half_closed",
        "language",
        "messages",
        "method",
        "namespace",
        "origin",
        "principal",
        "share",
        "state",
        "stream_id",
        "version",
        "waits",
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
        self.waits = False
        self.half_closed = False
        self.share: HostShare | None = None
        self.state: object = None

    def named(self, resource: pb.Resource) -> str:
        """The stored name of a topic or group; "" when it cannot be combined with its namespace. No check accepts ""."""
        space: str = resource.resource_namespace or self.namespace
        name: str = resource.name
        return in_namespace(space, name) if space else name


class CallContext(Protocol):
    """The connection as methods see it: it answers their calls, and has the objects that its clients share."""

    setting: Setting
    peer: Peer
    sessions: Sessions
    renewals: Renewals
    inquiries: Inquiries
    backlog: Backlog

    def ticket(self, call: Call) -> object:
        """The ticket of a command of `call`."""

    def ticket_of(self, call: Call, part: object) -> object:
        """The ticket of one of several commands of `call`; element 2 is `part`."""

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

    def is_full(self) -> bool:
        """True when no more large answers should be made: too many bytes of them wait for this client to read."""

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
    weight      least work of a call, in units of `backlog.TURN_WEIGHT_MAX`
    fields_max  fields of a request message
    bytes_max   bytes of a request message
    bulk        field number whose content does not count to OTHER_BYTES_MAX; 0: none
    bulk_inside field number inside `bulk`, of which this is true instead; 0: none
    """

    name: str
    begin: Callable[[CallContext, Call, bytes, int], Sequence[Command]]
    finish: Callable[[CallContext, Call, Event, int], None]
    streaming: bool = False
    weight: int = 2
    fields_max: int = FIELDS_MAX
    bytes_max: int = OTHER_BYTES_MAX
    bulk: int = 0
    bulk_inside: int = 0

    def excess(self, message: bytes) -> str:
        """The refusal of a request with too many fields, which are counted before any becomes an object; "" for others."""
        places = wire.contents(message, self.bulk, self.fields_max)
        beside = len(message)
        if places is not None:
            beside -= sum(places[1::2]) - sum(places[::2])
            if self.bulk_inside:
                for at in range(0, len(places), 2):
                    inner = wire.contents(message, self.bulk_inside, self.fields_max, places[at], places[at + 1])
                    if inner is None:
                        places = None
                        break
                    beside += places[at + 1] - places[at] - sum(inner[1::2]) + sum(inner[::2])
        if places is None:
            return f"{self.name}: a request has at most {self.fields_max} messages, entries or names"
        if beside > OTHER_BYTES_MAX:
            return f"{self.name}: {beside} bytes beside the bodies, {OTHER_BYTES_MAX} are allowed"
        return ""
