"""Calls, their methods, and the open calls of one connection: answers, commands, turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, final

from domain import limits
from domain.access.principal import Principal
from domain.address import in_namespace
from domain.client.client_inquiry import ClientAnswered, Inquiry
from domain.command import Command
from domain.errors import Failure
from domain.event import Event, Refused
from protocols.adapter import Peer
from protocols.grpc import framing, status, wire
from protocols.grpc.backlog import Backlog
from protocols.grpc.framing import Messages
from protocols.grpc.inquiry import Inquiries
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.renewal import Renewals
from protocols.grpc.session import Sessions
from protocols.grpc.translate_in import Refusal
from protocols.host_shares import HostShare
from protocols.http2.application import Reply
from protocols.http2.head import Headers
from protocols.setting import Setting

OTHER_BYTES_MAX: Final = 512 * 1024
"""Bytes of one request message without its bodies."""
MESSAGE_BYTES_MAX: Final = limits.BATCH_BYTES_MAX + OTHER_BYTES_MAX
"""Bytes of one request message with bodies, or with the stacks of a client."""
FIELDS_MAX: Final = 512
"""Fields at the top of one request message, so also its messages, entries or names."""
TEXT_CHARS_MAX: Final = 512
"""Characters of the text of a refusal: it may quote what the client has sent."""

RESPONSE: Final[Headers] = [
    (b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-accept-encoding", b"identity,gzip"),
]  # fmt: skip
_TRAILERS_OK: Final[Headers] = [(b"grpc-status", b"0")]


@final
class Call:
    """One call: one stream of the service.

    client_id   the metadata x-mq-client-id; "" when it is missing or cannot be used
    language    the metadata x-mq-language; read for streaming calls and calls with a grpc-timeout only
    version     the metadata x-mq-client-version; read like `language`
    namespace   the metadata x-mq-namespace, for resources without a namespace
    origin      stored properties for its messages: protocol and client id
    principal   the authenticated caller; None without access control
    deadline    monotonic ns from grpc-timeout; -1: none
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


@final
class OpenCalls:
    """The calls of one connection that are not answered, as its methods see them: their answers, and what its clients share.

    inquiries   inquiries of tools that clients of this connection have not answered
    queued      commands for the application's next `expire`
    _owner      element 0 of every ticket: the application
    """

    __slots__ = ("_owner", "backlog", "by_stream", "inquiries", "output", "peer", "queued", "renewals", "sessions", "setting")

    def __init__(self, owner: object, setting: Setting, sessions: Sessions, output: Reply, peer: Peer) -> None:
        self._owner = owner
        self.output = output
        self.setting = setting
        self.sessions = sessions
        self.peer = peer
        self.renewals = Renewals(owner)
        self.inquiries = Inquiries()
        self.backlog = Backlog()
        self.by_stream: dict[int, Call] = {}
        self.queued: list[Command] = []

    def ticket(self, call: Call) -> object:
        """The ticket of a command of `call`: element 0 routes the event to the application, element 1 to its call."""
        return (self._owner, call)

    def ticket_of(self, call: Call, part: object) -> object:
        """The ticket of one of several commands of `call`; element 2 is `part`."""
        return (self._owner, call, part)

    def is_closed(self, call: Call) -> bool:
        """True when the call has ended: its stream was reset, or it was answered."""
        return self.by_stream.get(call.stream_id) is not call

    def telemetry(self, client_id: str) -> Call | None:
        """The Telemetry stream of a client on this connection, None when it has none."""
        for call in self.by_stream.values():
            if call.method.streaming and call.client_id == client_id:
                return call
        return None

    def enqueue(self, command: Command) -> None:
        """Queue `command` for the application's next `expire`; its `deadline` is 0 until then."""
        self.queued.append(command)

    def reply(self, call: Call, message: bytes) -> None:
        """Answer a unary call."""
        self.reply_frames(call, b"\x00" + len(message).to_bytes(4, "big") + message)

    def reply_frames(self, call: Call, frames: bytes) -> None:
        """Answer a server-streaming call with all its messages, each with its prefix, and end it."""
        stream_id = call.stream_id
        del self.by_stream[stream_id]
        output = self.output
        output.respond(stream_id, RESPONSE, False)
        output.send(stream_id, frames, False)
        output.trailers(stream_id, _TRAILERS_OK)

    def refuse(self, call: Call, code: int, text: str) -> None:
        """Answer with a Status alone, and count the refusal."""
        self.setting.refused("grpc", status.REFUSALS[code])
        self.reply(call, status.status(code, text[:TEXT_CHARS_MAX]))

    def refuses(self, call: Call, refusal: Refusal | None) -> bool:
        """Answer with a refusal by the adapter, if it is one. True: the call is answered."""
        if refusal is not None:
            self.refuse(call, *refusal)
        return refusal is not None

    def reply_failure(self, call: Call, failure: Failure) -> None:
        """Answer with a Status alone, for a refusal that the gateway has counted."""
        self.reply(call, status.status(*status.of(failure)))

    def push(self, call: Call, message: bytes) -> None:
        """Send one more message on an open stream."""
        self.output.send(call.stream_id, framing.frame(message), False)

    def fail(self, call: Call, grpc_status: int, text: str, counted: bool = False) -> None:
        """End the call with a grpc-status. `counted`: the gateway has counted the refusal."""
        if self.by_stream.pop(call.stream_id, None) is not call:
            return
        if not counted:
            self.setting.refused("grpc", framing.REFUSALS[grpc_status])
        if call.method.streaming:
            self.output.trailers(call.stream_id, _trailers(grpc_status, text))
        else:
            self.output.respond(call.stream_id, [*RESPONSE, *_trailers(grpc_status, text)], True)

    def close(self, call: Call) -> None:
        """End an open stream with grpc-status 0. The client has been sent the Status of any error."""
        del self.by_stream[call.stream_id]
        self.output.trailers(call.stream_id, _TRAILERS_OK)

    def hold(self, call: Call) -> bool:
        """Count the bytes of a streaming call that are not handled; False, and the call ends, when they find no room."""
        share = call.share
        if share is None:
            share = call.share = HostShare(self.setting.uploads, self.peer.host)
        growth = call.messages.held - share.held
        if growth <= 0:
            share.give(-growth)
        elif not share.take(growth):
            share.release()
            self.setting.refused("grpc", "uploads-full")
            self.fail(call, framing.RESOURCE_EXHAUSTED, "too many bytes of unfinished requests are held", counted=True)
            return False
        return True

    def inquire(self, event: Inquiry, now: int) -> None:
        """Send an inquiry to its client, or queue the failure as its answer."""
        stream = self.telemetry(event.client_id)
        asked = self.inquiries.ask(event, self.sessions.find(event.client_id) if stream is not None else None, now)
        if isinstance(asked, ClientAnswered):
            self.enqueue(asked)
        elif stream is not None:
            self.push(stream, asked)

    def refuse_stream(self, stream_id: int, grpc_status: int, text: str) -> None:
        """End a stream that is no call with a grpc-status."""
        self.setting.refused("grpc", framing.REFUSALS[grpc_status])
        self.output.respond(stream_id, [*RESPONSE, *_trailers(grpc_status, text)], True)

    def refuse_client(self, call: Call) -> None:
        """Refuse a call without a usable client id with CLIENT_ID_REQUIRED; every response type has a Status field."""
        self.setting.refused("grpc", status.REFUSALS[pb.CLIENT_ID_REQUIRED])
        self.reply_status(call, status.status(pb.CLIENT_ID_REQUIRED, "the metadata x-mq-client-id is missing"))

    def reply_status(self, call: Call, status_field: bytes) -> None:
        """Answer with an encoded Status field alone, before the request has been read."""
        if call.method.streaming:
            self.push(call, status_field)
            self.close(call)
        else:
            self.reply(call, status_field)


def _trailers(grpc_status: int, text: str) -> Headers:
    return [(b"grpc-status", b"%d" % grpc_status), (b"grpc-message", framing.percent_encode(text[:TEXT_CHARS_MAX]))]


class Method(NamedTuple):
    """One method of the service.

    name        its name in the request path
    begin       one complete request message -> commands. Raises google.protobuf's DecodeError for malformed bytes
    finish      handles the event of a command
    streaming   requests are handled as they arrive, and the response headers are sent at once: Telemetry
    weight      least work of a call, in units of `backlog.TURN_WEIGHT_MAX`
    fields_max  fields of a request message
    bytes_max   bytes of a request message
    bulk        field number whose content does not count to OTHER_BYTES_MAX; 0: none
    bulk_inside field number inside `bulk`, of which this is true instead; 0: none
    """

    name: str
    begin: Callable[[OpenCalls, Call, bytes, int], Sequence[Command]]
    finish: Callable[[OpenCalls, Call, Event, int], None]
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


def finish_done(calls: OpenCalls, call: Call, event: Event, now: int) -> None:
    """Done -> OK."""
    if isinstance(event, Refused):
        calls.reply_failure(call, event.failure)
    else:
        calls.reply(call, status.STATUS_OK)
