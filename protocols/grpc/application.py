"""The service apache.rocketmq.v2.MessagingService on one HTTP/2 connection: streams become calls, calls become commands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, final

from google.protobuf.message import DecodeError

from domain.access.principal import GATEWAY
from domain.client.client_inquiry import Inquiry
from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.message import property as properties
from domain.topic.lite import LiteTaken
from domain.transaction import CheckTransaction
from protocols.adapter import Peer
from protocols.grpc import client, framing, lite, receive, route, send, settle, status, transaction
from protocols.grpc.access import Authenticator
from protocols.grpc.call import RESPONSE, Call, Method, OpenCalls
from protocols.grpc.framing import FramingError, Messages
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.node_settings import GrpcSettings
from protocols.grpc.session import Sessions
from protocols.http2.application import Reply
from protocols.http2.head import Headers, RequestHead
from protocols.setting import Setting

UNCHECKED_BYTES_MAX: Final = 4 * 1024
"""A request of this size is read without counting its fields first."""
COMMANDS_AT_ONCE: Final = 16
"""Commands of one request that are carried out in one turn of the loop."""
CLIENT_ID_BYTES_MAX: Final = 1024

METHODS: Final[dict[bytes, Method]] = {
    f"/apache.rocketmq.v2.MessagingService/{method.name}".encode(): method
    for method in (
        send.SEND_MESSAGE, receive.RECEIVE_MESSAGE, settle.ACK_MESSAGE, settle.CHANGE_INVISIBLE_DURATION,
        settle.FORWARD_MESSAGE, transaction.END_TRANSACTION, transaction.RECALL_MESSAGE, route.QUERY_ROUTE,
        route.QUERY_ASSIGNMENT, client.TELEMETRY, client.HEARTBEAT, client.NOTIFY_CLIENT_TERMINATION,
        lite.SYNC_LITE_SUBSCRIPTION,
    )
}  # fmt: skip

_GRPC: Final = b"application/grpc"
_NOT_POST: Final[Headers] = [(b":status", b"405"), (b"allow", b"POST"), (b"content-length", b"0")]
_ORIGIN: Final = properties.HG_PROTOCOL_START + b"grpc\x02" + properties.HG_CLIENT_START


@final
class GrpcApplication:
    """The streams of one connection. Implements `protocols.http2.application.Application`.

    calls          the calls that are not answered, and the interface of this connection for methods
    _not_posts     streams whose method is not POST, until the request ends
    _client_raw    the metadata x-mq-client-id of the last call
    _client_id     the same as text; "" when it cannot be used
    _origin        stored properties for messages of this client: protocol and client id
    """

    def __init__(self, setting: Setting, config: GrpcSettings, sessions: Sessions, reply: Reply, peer: Peer) -> None:
        self.calls = OpenCalls(self, setting, sessions, reply, peer)
        self._setting = setting
        self._backlog = self.calls.backlog
        self._by_stream = self.calls.by_stream
        authority = setting.authority
        self._authenticator = (
            None if authority is None else Authenticator(authority, peer, config.signature_age_s, setting.wall_ms)
        )
        self._reply = reply
        self._not_posts: set[int] = set()
        self._client_raw = b""
        self._client_id = ""
        self._origin = b""

    # Called by the HTTP/2 connection

    def accepts(self, head: RequestHead) -> bool:
        """True when the content type begins with `application/grpc`."""
        return head.content_type[:16] == _GRPC

    def opened(self, stream_id: int, head: RequestHead, now: int) -> Sequence[Command]:
        """A stream has begun: find its method, client and principal. Refused calls are answered at once, but for 405."""
        if head.method != b"POST":
            # Intermediaries may repeat a GET or PUT, or answer it from a cache (PROTOCOL-HTTP2: requests are POST).
            self._setting.refused("grpc", framing.REFUSALS[framing.UNIMPLEMENTED])
            self._not_posts.add(stream_id)
            return ()
        fields = dict(head.fields)
        method = METHODS.get(head.path)
        encoding = fields.get(b"grpc-encoding", b"identity")
        if method is None:
            self.calls.refuse_stream(stream_id, framing.UNIMPLEMENTED, "this method is not served")
            return ()
        if encoding not in (b"identity", b"gzip"):
            self.calls.refuse_stream(stream_id, framing.UNIMPLEMENTED, "grpc-encoding is none of identity, gzip")
            return ()
        raw = fields.get(b"x-mq-client-id", b"")
        if raw != self._client_raw:
            self._set_client(raw)
        timeout = fields.get(b"grpc-timeout")
        wait = framing.timeout_ns(timeout) if timeout is not None else -1
        call = Call(
            stream_id,
            method,
            self._client_id,
            self._origin,
            now + wait if wait >= 0 else -1,
            Messages(encoding == b"gzip", method.bytes_max),
        )
        self._by_stream[stream_id] = call
        space = fields.get(b"x-mq-namespace")
        if space:
            call.namespace = space.decode("latin-1")
        if method.streaming or wait >= 0:
            call.language = fields.get(b"x-mq-language", b"OTHER").decode("latin-1")[:32]
            call.version = fields.get(b"x-mq-client-version", b"").decode("latin-1")[:32]
        if method.streaming:
            # Some clients read no message before the response headers have arrived.
            self._reply.respond(stream_id, RESPONSE, False)
        if not self._client_id:
            self.calls.refuse_client(call)
        elif self._authenticator is not None:
            found = self._authenticator.identify(fields, head.fields)
            if isinstance(found, Failure):
                self._setting.refused("grpc", found.code.value)
                self.calls.reply_status(call, status.status(*status.of(found)))
            else:
                call.principal = found
        return ()

    def data(self, stream_id: int, data: bytes, now: int) -> Sequence[Command]:
        """A part of a request. Messages of a streaming call are handled as they are complete, in turns."""
        call = self._by_stream.get(stream_id)
        if call is None:
            return ()
        messages = call.messages
        messages.feed(data)
        if call.waits:
            self.calls.hold(call)
            return ()
        try:
            ready = messages.ready()
        except FramingError as error:
            self.calls.fail(call, error.status, str(error))
            return ()
        if not call.method.streaming:
            if ready and messages.follows():
                self.calls.fail(call, framing.INVALID_ARGUMENT, "a unary call has one request message")
            return ()
        return self._continue(call, ready, now)

    def _continue(self, call: Call, ready: bool, now: int) -> Sequence[Command]:
        """Handle the messages of a streaming call that are there; with too many for this turn, the others wait for the next."""
        commands: list[Command] = []
        while ready and self._backlog.is_open(now):
            commands += self._begin(call, now)
            if self.calls.is_closed(call):
                return commands
            try:
                ready = call.messages.ready()
            except FramingError as error:
                self.calls.fail(call, error.status, str(error))
                return commands
        if ready and not call.waits:
            call.waits = True
            self._reply.pause(call.stream_id)
            self._backlog.add(partial(self._continue_later, call))
        if (call.messages.held or call.share is not None) and not self.calls.hold(call):
            return commands
        if call.half_closed and not ready:
            self._close_stream(call)
        return commands

    def _continue_later(self, call: Call, now: int) -> Sequence[Command]:
        """`_continue` in a later turn, with one message at least."""
        if self.calls.is_closed(call):
            return ()
        commands = list(self._begin(call, now))
        if self.calls.is_closed(call):
            return commands
        call.waits = False
        try:
            ready = call.messages.ready()
        except FramingError as error:
            self.calls.fail(call, error.status, str(error))
            return commands
        commands += self._continue(call, ready, now)
        if not call.waits:
            self._reply.resume(call.stream_id)
        return commands

    def ended(self, stream_id: int, now: int) -> Sequence[Command]:
        """The request is complete: handles the message of a unary call, closes a streaming call."""
        call = self._by_stream.get(stream_id)
        if call is None:
            if stream_id in self._not_posts:
                # curl 7.88 reports an error, and no status, when RST_STREAM arrives together with the response.
                self._not_posts.remove(stream_id)
                self._reply.respond(stream_id, _NOT_POST, True)
            return ()
        if call.method.streaming:
            call.half_closed = True
            if not call.waits:
                self._close_stream(call)
            return ()
        size = call.messages.held
        if size == 0:
            self.calls.fail(call, framing.INTERNAL, "the request has no message")
        elif not call.messages.ready() or call.messages.follows():
            self.calls.fail(call, framing.INTERNAL, "the request ends inside a message")
        elif self._backlog.is_open(now):
            return self._begin(call, now)
        else:
            self._reply.hold(size)
            self._backlog.add(partial(self._begin_later, call, size))
        return ()

    def _begin_later(self, call: Call, size: int, now: int) -> Sequence[Command]:
        """Handle the request of a unary call whose turn has come."""
        self._reply.hold(-size)
        return () if self.calls.is_closed(call) else self._begin(call, now)

    def _begin(self, call: Call, now: int) -> Sequence[Command]:
        """Read the next message of a call and let its method begin -> commands. A message that cannot be read ends the call."""
        method = call.method
        try:
            message = call.messages.take()
            size = len(message)
            if size > UNCHECKED_BYTES_MAX and (excess := method.excess(message)):
                if method.streaming:
                    self.calls.fail(call, framing.INVALID_ARGUMENT, excess)
                else:
                    self.calls.refuse(call, pb.BAD_REQUEST, excess)
                return ()
            self._backlog.charge(method.weight + (size >> 16))
            commands = method.begin(self.calls, call, message, now)
        except FramingError as error:
            self.calls.fail(call, error.status, str(error))
            return ()
        except DecodeError:
            self.calls.fail(call, framing.INTERNAL, "a request message cannot be read")
            return ()
        if len(commands) <= COMMANDS_AT_ONCE:
            return _with_principal(call, commands)
        return self._some(call, commands, 0, now)

    def _some(self, call: Call, commands: Sequence[Command], at: int, now: int) -> Sequence[Command]:
        """The next COMMANDS_AT_ONCE commands of a request that asks for many. The others follow in later turns, even if its
        call has ended by then: a request is carried out whole."""
        end = at + COMMANDS_AT_ONCE
        if end < len(commands):
            self._backlog.go_on(partial(self._some, call, commands, end))
        self._backlog.charge(8 * COMMANDS_AT_ONCE)
        return _with_principal(call, commands[at:end])

    def _close_stream(self, call: Call) -> None:
        """The client has half-closed a streaming call, and its messages are handled."""
        if call.messages.held:
            self.calls.fail(call, framing.INTERNAL, "the request ends inside a message")
        elif not call.state:
            self.calls.close(call)
        # Else with the answer to the last settings.

    def cancelled(self, stream_id: int, now: int) -> Sequence[Command]:
        """The client has reset the stream. A command in progress continues; messages leased by it are released in `finish`."""
        self._not_posts.discard(stream_id)
        call = self._by_stream.pop(stream_id, None)
        if call is not None and call.method is client.TELEMETRY:
            known = self.calls.sessions.find(call.client_id)
            if known is not None and known.kind == pb.LITE_PUSH_CONSUMER:
                return _with_principal(call, (lite.remove_subscriptions(self.calls, call, known),))
        return ()

    def answer(self, event: Event, now: int) -> None:
        """Handle the event of a command of this connection, or an event without a ticket."""
        ticket: Any = event.ticket  # its own, or None
        if ticket is None:
            if type(event) is CheckTransaction:
                stream = self.calls.telemetry(event.client_id)
                if stream is not None:
                    self.calls.push(stream, transaction.check_command(event, self.calls.sessions.find(event.client_id)))
            elif type(event) is LiteTaken:
                stream = self.calls.telemetry(event.client_id)
                if stream is not None:
                    self.calls.push(stream, lite.unsubscribe_command(event))
            elif type(event) is Inquiry:
                self.calls.inquire(event, now)
            return
        subject = ticket[1]
        if type(subject) is Call:
            if self._by_stream.get(subject.stream_id) is subject or subject.method is receive.RECEIVE_MESSAGE:
                subject.method.finish(self.calls, subject, event, now)
        else:
            self.calls.renewals.extended(subject, event, now)

    def drain(self, now: int) -> Sequence[Command]:
        """The node stops: streams end with UNAVAILABLE, so that clients open them on another node."""
        for call in list(self._by_stream.values()):
            if call.method.streaming:
                self.calls.fail(call, framing.UNAVAILABLE, "the node stops", counted=True)
        return ()

    def deadline(self) -> int | None:
        """Monotonic ns at which the next lease has to be renewed; 0 while commands or steps wait; None for never."""
        return 0 if self.calls.queued or self._backlog.waits else self.calls.renewals.due_at

    def expire(self, now: int) -> Sequence[Command]:
        """The queued commands, the next steps of the backlog, and extensions of the leases that are due."""
        commands, self.calls.queued = self.calls.queued, []
        begun = self._backlog.run(now) if self._backlog.waits else None
        due_at = self.calls.renewals.due_at
        if due_at is not None and due_at <= now:
            commands += self.calls.renewals.expire(now)
        if self._authenticator is not None:
            for command in commands:
                # Renewals, releases and departures follow from authorised calls, so they need no rights of their own.
                if getattr(command, "principal", None) is None:
                    command.principal = GATEWAY
        if begun is not None:
            commands += begun  # each has the principal of its call
        return commands

    def _set_client(self, raw: bytes) -> None:
        """Keep the client of the last call in decoded form: most connections carry calls of one client."""
        text = raw.decode("utf-8", "replace")
        usable = 0 < len(raw) <= CLIENT_ID_BYTES_MAX and text.isprintable()
        self._client_raw = raw
        self._client_id = text if usable else ""
        self._origin = _ORIGIN + text.encode() + b"\x02" if usable else b""


def _with_principal(call: Call, commands: Sequence[Command]) -> Sequence[Command]:
    if call.principal is not None:
        for command in commands:
            command.principal = call.principal
    return commands
