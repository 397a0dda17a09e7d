"""The open calls of one connection, and its interface for the methods: answers, commands, turns."""

from __future__ import annotations

from typing import Final, final

from domain.client_inquiry import ClientAnswered, Inquiry
from domain.command import Command
from domain.errors import Failure
from protocols.adapter import Peer
from protocols.grpc import client, framing, status
from protocols.grpc.backlog import Backlog
from protocols.grpc.call import Call
from protocols.grpc.inquiry import Inquiries
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.renewal import Renewals
from protocols.grpc.session import Sessions
from protocols.host_shares import HostShare
from protocols.http2.application import Reply
from protocols.http2.head import Headers
from protocols.setting import Setting

TEXT_CHARS_MAX: Final = 512
"""Characters of the text of a refusal: it may quote what the client has sent."""

_GRPC: Final = (b"content-type", b"application/grpc")
RESPONSE: Final[Headers] = [(b":status", b"200"), _GRPC, (b"grpc-accept-encoding", b"identity,gzip")]
_TRAILERS_OK: Final[Headers] = [(b"grpc-status", b"0")]


@final
class OpenCalls:
    """The calls of one connection that are not answered. Implements `CallContext` for the methods.

    setting     the node's facts: clocks, broker name, counters of refusals, authority
    peer        address and certificate of the client
    sessions    clients of all connections, by client id
    renewals    leases of this connection that are renewed
    inquiries   inquiries of tools that clients of this connection have not answered
    backlog     the work of this turn of the loop, and the work that waits for a later one
    by_stream   stream id -> call
    queued      commands for the application's next `expire`
    _owner      element 0 of every ticket: the application
    _reply      writes to the streams of the HTTP/2 connection
    """

    __slots__ = ("_owner", "_reply", "backlog", "by_stream", "inquiries", "peer", "queued", "renewals", "sessions", "setting")

    def __init__(self, owner: object, setting: Setting, sessions: Sessions, reply: Reply, peer: Peer) -> None:
        self._owner = owner
        self._reply = reply
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

    def unsent_bytes(self) -> int:
        """Bytes of answers, over all calls of the connection, that have not been sent."""
        return self._reply.pending(0)

    def is_full(self) -> bool:
        """True when too many bytes of answers wait for this client to read."""
        return self._reply.is_full()

    def telemetry(self, client_id: str) -> Call | None:
        """The Telemetry stream of a client on this connection, None when it has none."""
        for call in self.by_stream.values():
            if call.method is client.TELEMETRY and call.client_id == client_id:
                return call
        return None

    def enqueue(self, command: Command) -> None:
        """Queue `command` for the application's next `expire`; its `deadline` is 0 until then."""
        self.queued.append(command)

    def reply(self, call: Call, message: bytes) -> None:
        """Send the message of a unary call, and the trailers."""
        self.reply_frames(call, b"\x00" + len(message).to_bytes(4, "big") + message)

    def reply_frames(self, call: Call, frames: bytes) -> None:
        """Send prefixed messages, and the trailers."""
        stream_id = call.stream_id
        del self.by_stream[stream_id]
        reply = self._reply
        reply.respond(stream_id, RESPONSE, False)
        reply.send(stream_id, frames, False)
        reply.trailers(stream_id, _TRAILERS_OK)

    def refuse(self, call: Call, code: int, text: str) -> None:
        """Answer with a Status alone, and count the refusal."""
        self.setting.refused("grpc", status.REFUSALS[code])
        self.reply(call, status.status(code, text[:TEXT_CHARS_MAX]))

    def reply_failure(self, call: Call, failure: Failure) -> None:
        """Answer with a Status alone, for a refusal that the gateway has counted."""
        self.reply(call, status.status(*status.of(failure)))

    def push(self, call: Call, message: bytes) -> None:
        """Send one more message on an open stream."""
        self._reply.send(call.stream_id, framing.frame(message), False)

    def fail(self, call: Call, grpc_status: int, text: str, counted: bool = False) -> None:
        """End the call with a grpc-status. `counted`: the gateway has counted the refusal."""
        if self.by_stream.pop(call.stream_id, None) is not call:
            return
        if not counted:
            self.setting.refused("grpc", framing.REFUSALS[grpc_status])
        if call.method.streaming:
            self._reply.trailers(call.stream_id, _trailers(grpc_status, text))
        else:
            self._reply.respond(call.stream_id, [*RESPONSE, *_trailers(grpc_status, text)], True)

    def close(self, call: Call) -> None:
        """End an open stream with grpc-status 0."""
        del self.by_stream[call.stream_id]
        self._reply.trailers(call.stream_id, _TRAILERS_OK)

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
        self._reply.respond(stream_id, [*RESPONSE, *_trailers(grpc_status, text)], True)

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
