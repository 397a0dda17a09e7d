"""Handlers over HTTP/2: one application for each connection (RFC 9113, section 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from domain import limits
from domain.command import Command
from domain.event import Event
from protocols.adapter import Peer, ignore_refusal
from protocols.host_shares import HostShare
from protocols.http.flow_streams import FlowStreams
from protocols.http.handler import Handler
from protocols.http.problem import content_too_large, draining, head_too_large, target_too_long, too_slow
from protocols.http.request import HEAD_BYTES_MAX, TARGET_BYTES_MAX, Request, content_due, is_discardable
from protocols.http.request_run import RequestRun, by_the_gateway
from protocols.http.response import DateLine, Response
from protocols.http.router import Router
from protocols.http.site import readable_by
from protocols.http.status import PHRASE
from protocols.http2.application import Reply
from protocols.http2.head import RequestHead

LINGER_NS: Final = limits.SECOND_NS // 2
ANSWER_BYTES_MAX: Final = 1 << 40
"""Larger than any answer: `Reply.is_full` alone decides."""
_STATUS: Final[dict[int, Any]] = {status: (b":status", b"%d" % status) for status in PHRASE}
"""Fields `:status`, of Any: a compiled `tuple[bytes, bytes]` would be taken apart and made again."""


@final
class _Stream(RequestRun):
    """A request on its stream.

    began          monotonic ns at which the stream was opened
    reset          True: the peer has reset the stream while its command was in progress
    linger_until   monotonic ns; the refusal has been sent, and content is discarded until then. 0: no refusal sent
    """

    __slots__ = ("began", "body", "linger_until", "reset", "size")

    def __init__(self, request: Request, now: int) -> None:
        super().__init__(request)
        self.began = now
        self.reset = False
        self.linger_until = 0
        self.body: bytes | bytearray = b""
        self.size = 0

    def deadline(self) -> int:
        """Monotonic ns: of the next slice; of a refused request the end of lingering; else the time limit of the content."""
        if self.steps is not None:
            return self.due
        return self.linger_until or content_due(self.began, self.size)


@final
class HttpApplication:
    """`protocols.http2.application.Application`. A ticket is (application, stream id).

    _arriving        stream id -> a request that is not complete
    _handled         stream id -> a request whose command is in progress
    _sliced          stream id -> a large request that is handled in slices
    _undo_commands   commands for the next `expire`: they undo commands whose answer is not sent
    """

    def __init__(
        self,
        router: Router,
        date: DateLine,
        reply: Reply,
        peer: Peer,
        refused: Callable[[str, str], None] = ignore_refusal,
    ) -> None:
        self._refused = refused
        self._router = router
        self._date = date
        self._reply = reply
        self._peer = peer
        self._arriving: dict[int, _Stream] = {}
        self._handled: dict[int, _Stream] = {}
        self._undo_commands: list[Command] = []
        self._sliced: dict[int, _Stream] = {}
        self._share = HostShare(router.uploads, peer.host)
        self._flows = FlowStreams(reply, refused)

    def accepts(self, head: RequestHead) -> bool:
        """True for every request that is not gRPC."""
        return head.content_type[:16] != b"application/grpc"

    def opened(self, stream_id: int, head: RequestHead, now: int) -> Sequence[Command]:
        """The head of a request: find its handler, or refuse it."""
        fields = head.fields
        if head.authority:
            fields.insert(0, (b"host", head.authority))
        request = Request(head.method, head.path, fields, self._peer)
        if head.method == b"CONNECT" and head.protocol == b"websocket":
            # Its answer is that to a GET with Upgrade: the handler sees the same request in both versions.
            request.method = b"GET"
            request.tunnel = True
            request.fields.append((b"upgrade", b"websocket"))
            request.know(b"upgrade", b"websocket")
        stream = _Stream(request, now)
        found: Handler | None = None
        if head.size > HEAD_BYTES_MAX:
            stream.refusal = head_too_large("the head of a request", HEAD_BYTES_MAX)
        elif len(head.path) > TARGET_BYTES_MAX:
            stream.refusal = target_too_long(TARGET_BYTES_MAX)
        else:
            found = stream.judge(request, self._router)
        if stream.handler is not None and (stream.feeds or request.tunnel):
            return self._start(stream_id, stream, now)
        self._arriving[stream_id] = stream
        endless = request.tunnel or (found is not None and found.uploads)
        if stream.refusal is not None and (endless or not is_discardable(request)):
            self._refuse_early(stream_id, stream, stream.refusal, now)
        return ()

    def _start(self, stream_id: int, stream: _Stream, now: int) -> Sequence[Command]:
        """Carry out a request that is complete, or whose content is passed on as it arrives."""
        request = stream.request
        command, response = stream.start((self, stream_id), self._share, now)
        if response is None:
            self._handled[stream_id] = stream
            if stream.steps is not None:
                self._sliced[stream_id] = stream
        elif response.flow is None and request is not None and (stream.feeds or request.tunnel):
            self._arriving[stream_id] = stream
            self._refuse_early(stream_id, stream, response, now)
        else:
            self._respond(stream_id, response, stream, now)
        return () if command is None else (command,)

    def data(self, stream_id: int, data: bytes, now: int) -> Sequence[Command]:
        """A part of the content, up to the handler's limit."""
        if len(self._flows) and self._flows.has(stream_id):
            return self._flows.feed(stream_id, data, now)
        stream = self._arriving.get(stream_id)
        if stream is None or stream.linger_until or not data:
            return ()
        if stream.size + len(data) > stream.content_max:
            self._refuse_early(stream_id, stream, stream.refusal or content_too_large(stream.content_max), now)
            return ()
        if stream.size == 0:
            stream.body = data
        else:
            if isinstance(stream.body, bytes):
                stream.body = bytearray(stream.body)
            stream.body += data
        stream.size += len(data)
        return ()

    def ended(self, stream_id: int, now: int) -> Sequence[Command]:
        """The request is complete: start its handler."""
        stream = self._arriving.pop(stream_id, None)
        if stream is None:
            return self._flows.ended(stream_id, now)
        if stream.linger_until:
            self._reply.send(stream_id, b"", True)
            return ()
        if stream.handler is not None and stream.request is not None:
            stream.request.body = bytes(stream.body)
            stream.body = b""
        return self._start(stream_id, stream, now)

    def cancelled(self, stream_id: int, now: int) -> Sequence[Command]:
        """The peer has reset the stream. A command in progress continues; its answer is discarded or undone."""
        self._arriving.pop(stream_id, None)
        if self._flows.has(stream_id):
            return self._flows.cancelled(stream_id, now)
        stream = self._handled.get(stream_id)
        if stream is None:
            return ()
        if self._sliced.pop(stream_id, None) is not None:
            self._share.give(stream.shared)
            del self._handled[stream_id]
        stream.reset = True
        return ()

    def answer(self, event: Event, now: int) -> None:
        """The event of a command. Events without a ticket do not concern HTTP."""
        ticket = getattr(event, "ticket", None)
        if not isinstance(ticket, tuple) or ticket[0] is not self:
            return
        stream_id: int = ticket[1]
        if self._flows.has(stream_id):
            self._undo_commands += self._flows.answer(stream_id, event, now)
            return
        stream = self._handled.get(stream_id)
        if stream is None or stream.handler is None:
            return
        handler = stream.handler
        if len(ticket) == 3:
            collected = handler.collect(event)
            if collected is None:
                return
            response = collected
        elif stream.reset:
            self._undo_commands += by_the_gateway(handler.undo(event, ticket))
            del self._handled[stream_id]
            return
        elif handler.repeatable:
            room = 0 if self._reply.is_full() else ANSWER_BYTES_MAX
            response, undo = stream.repeatable_response(handler, event, ticket, room, self._reply.pending(0))
            self._undo_commands += undo
        else:
            response = handler.finish(event)
        del self._handled[stream_id]
        if not stream.reset:
            self._respond(stream_id, response, stream, now)

    def _refuse_early(self, stream_id: int, stream: _Stream, refusal: Response, now: int) -> None:
        """Refuse a request before its content has arrived.

        The stream ends LINGER_NS later: a client whose upload is cut off may not read the response.
        """
        stream.linger_until = now + LINGER_NS
        stream.body = b""
        self._respond(stream_id, refusal, stream, now, False)

    def _respond(self, stream_id: int, response: Response, stream: _Stream, now: int, end: bool = True) -> None:
        stream.handler = None
        if response.refusal:
            self._refused("http", response.refusal)
        headers: list[Any] = [_STATUS[response.status], self._date.field(now)]
        headers += response.fields
        flow = response.flow
        if response.status != 204 and flow is None:
            headers.append((b"content-length", b"%d" % len(response.body)))
        if stream.origin:
            headers += readable_by(stream.origin)
        if flow is not None and not stream.head_only:
            self._reply.respond(stream_id, headers, False)
            self._flows.add(stream_id, flow)
            return
        if flow is not None:
            self._undo_commands += flow.gone(now)
        if stream.head_only or not response.body:
            self._reply.respond(stream_id, headers, end)
            return
        self._reply.respond(stream_id, headers, False)
        self._reply.send(stream_id, response.body, end)

    def drain(self, now: int) -> Sequence[Command]:
        """The node stops: incomplete requests are answered with 503."""
        for stream_id, stream in list(self._arriving.items()):
            if not stream.linger_until:
                del self._arriving[stream_id]
                self._respond(stream_id, stream.refusal or draining(), stream, now)
        self._flows.drain()
        return ()

    def deadline(self) -> int | None:
        """The earliest deadline of incomplete requests; 0 while an undo command is queued; None for never."""
        if self._undo_commands:
            return 0
        flows = self._flows.deadline() if len(self._flows) else None
        if not self._arriving and not self._sliced:
            return flows
        due = [stream.deadline() for stream in (*self._arriving.values(), *self._sliced.values())]
        return min(due if flows is None else [*due, flows])

    def expire(self, now: int) -> Sequence[Command]:
        """Answer late requests with 408, end streams that have lingered, return the undo commands."""
        for stream_id in [one for one, stream in self._arriving.items() if stream.deadline() <= now]:
            stream = self._arriving.pop(stream_id)
            if stream.linger_until:
                self._reply.send(stream_id, b"", True)
            else:
                self._respond(stream_id, stream.refusal or too_slow(), stream, now)
        commands, self._undo_commands = self._undo_commands, []
        if len(self._flows):
            commands += self._flows.expire(now)
        if self._sliced:
            # One slice in a turn, however late it is: what it leaves over is due at once, in the next turn.
            stream_id, stream = min(self._sliced.items(), key=_due)
            if stream.deadline() <= now:
                commands += self._run_slice(stream_id, stream, now)
        return commands

    def _run_slice(self, stream_id: int, stream: _Stream, now: int) -> Sequence[Command]:
        command, response = stream.next_slice(self._share, now)
        if stream.steps is None:
            del self._sliced[stream_id]
        if response is not None:
            del self._handled[stream_id]
            self._respond(stream_id, response, stream, now)
        return () if command is None else (command,)


def _due(item: tuple[int, _Stream]) -> int:
    return item[1].deadline()
