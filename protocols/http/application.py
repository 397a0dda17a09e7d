"""Handlers over HTTP/2: one application for each connection (RFC 9113, section 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from domain import limits
from domain.command import Command
from domain.errors import ErrorCode
from domain.event import Event
from protocols.adapter import Peer, ignore_refusal
from protocols.host_shares import HostShare
from protocols.http import large_answer
from protocols.http.flow_streams import FlowStreams
from protocols.http.handler import Handler
from protocols.http.problem import RefusalError, problem
from protocols.http.request import (
    CONTENT_BYTES_PER_S,
    DISCARDED_BYTES_MAX,
    HEAD_BYTES_MAX,
    Request,
    head_fault,
    no_room,
)  # fmt: skip
from protocols.http.response import DateLine, Response
from protocols.http.router import Router
from protocols.http.site import readable_by
from protocols.http.slices import SlicedRequest
from protocols.http.status import PHRASE
from protocols.http2.application import Reply
from protocols.http2.head import RequestHead

LINGER_NS: Final = limits.SECOND_NS // 2
ANSWER_BYTES_MAX: Final = 1 << 40
"""No answer has so many bytes: `Reply.is_full` alone decides."""
_STATUS: Final[dict[int, Any]] = {status: (b":status", b"%d" % status) for status in PHRASE}
"""Fields `:status`, of Any: a compiled `tuple[bytes, bytes]` would be taken apart and made anew."""


@final
class _Stream:
    """One request on its stream.

    request        head and content
    handler        None: refused
    refusal        the response of a refused request; sent when its content has ended or is too long
    limit          most bytes of content that are accepted, or discarded after a refusal
    head_only      True: the method is HEAD, so the response has no body
    began          monotonic ns at which the stream was opened
    body           content so far
    size           bytes of content so far
    origin         origin of another site whose page may read the response; b"" for none
    shared         bytes that its work in slices holds, its content included
    reset          True: the peer has reset the stream while its command was in progress
    uploads        True: its content is passed on as it arrives
    linger_until   monotonic ns; the refusal has been sent, and content is discarded until then. 0: no refusal sent
    """

    __slots__ = (
        "began", "body", "handler", "head_only", "limit", "linger_until", "origin", "refusal", "request", "reset",
        "shared", "size", "uploads",
    )  # fmt: skip

    def __init__(self, request: Request, now: int) -> None:
        self.request = request
        self.handler: Handler | None = None
        self.refusal: Response | None = None
        self.limit = DISCARDED_BYTES_MAX
        self.head_only = request.method == b"HEAD"
        self.began = now
        self.reset = False
        self.linger_until = 0
        self.body: bytes | bytearray = b""
        self.size = 0
        self.shared = 0
        self.uploads = False
        self.origin = b""

    def deadline(self) -> int:
        """Monotonic ns by which the request must be complete: 10 s, and 1 s more for each 32 KiB received."""
        return self.linger_until or self.began + limits.FRAME_NS + self.size * limits.SECOND_NS // CONTENT_BYTES_PER_S


@final
class HttpApplication:
    """`protocols.http2.application.Application`. A ticket is (application, stream id).

    _refused         counts a refusal
    _router          finds handlers
    _date            the Date field
    _reply           writes to the streams of the HTTP/2 connection
    _peer            address and certificate of the client
    _arriving        stream id -> a request that is not complete
    _handled         stream id -> a request whose command is in progress
    _sliced          stream id -> the work on a large request, one of the handled ones
    _share           bytes that large requests hold
    _flows           responses that are written in parts
    _undo_commands   commands for the next `expire`: they undo commands whose answer is not sent
    """

    __slots__ = (
        "_arriving", "_date", "_flows", "_handled", "_peer", "_refused", "_reply", "_router", "_share", "_sliced",
        "_undo_commands",
    )  # fmt: skip

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
        self._sliced: dict[int, SlicedRequest] = {}
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
        stream = self._arriving[stream_id] = _Stream(request, now)
        try:
            if head.size > HEAD_BYTES_MAX:
                raise RefusalError(problem(431, "head-too-large", f"the head of a request is above {HEAD_BYTES_MAX} bytes"))
            if request.method == b"CONNECT":
                raise RefusalError(problem(405, "method-not-allowed", "this is no proxy", [(b"allow", b"")]))
            stream.origin = self._router.site.judge(request)
            handler = self._router.find(request)
            limit = handler.content_limit(request)
            stream.refusal = head_fault(request, limit)
            stream.uploads = handler.uploads
            if stream.refusal is None:
                handler.admit(request)
                stream.handler = handler
                stream.limit = limit
                if handler.uploads or request.tunnel:
                    return self._begin(stream_id, stream, now)
        except RefusalError as refusal:
            stream.handler = None
            stream.refusal = refusal.response
        early = request.has(b"expect") or request.length < 0 or request.length > DISCARDED_BYTES_MAX
        early = early or request.tunnel or stream.uploads
        if stream.refusal is not None and early:
            self._refuse_early(stream_id, stream, stream.refusal, now)
        return ()

    def _begin(self, stream_id: int, stream: _Stream, now: int) -> Sequence[Command]:
        """Start a handler with the head of its request, whose content comes later. May raise RefusalError."""
        handler = stream.handler
        assert handler is not None
        command, response = handler.carry_out(stream.request, (self, stream_id))
        del self._arriving[stream_id]
        if response is not None:
            self._respond(stream_id, response, stream, now)
        else:
            self._handled[stream_id] = stream
        return () if command is None else (command,)

    def data(self, stream_id: int, data: bytes, now: int) -> Sequence[Command]:
        """A part of the content, up to the handler's limit."""
        if len(self._flows) and self._flows.has(stream_id):
            return self._flows.feed(stream_id, data, now)
        stream = self._arriving.get(stream_id)
        if stream is None or stream.linger_until or not data:
            return ()
        if stream.size + len(data) > stream.limit:
            limit = stream.limit
            refusal = problem(413, "message-too-large", f"the content is above {limit} bytes", limit=limit)
            self._refuse_early(stream_id, stream, stream.refusal or refusal, now)
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
        command, response = None, stream.refusal
        request, handler = stream.request, stream.handler
        if handler is not None:
            request.body = bytes(stream.body)
            stream.body = b""
            slices = handler.in_slices(request, (self, stream_id), stream.limit, self._share, now)
            if slices is not None:
                if not self._share.take(len(request.body)):
                    self._respond(stream_id, no_room().response, stream, now)
                    return ()
                stream.shared = len(request.body)
                self._handled[stream_id] = stream
                self._sliced[stream_id] = slices
                return self._run_slice(stream_id, slices, now) if slices.due <= now else ()
            try:
                command, response = handler.carry_out(request, (self, stream_id))
            except RefusalError as refusal:
                response = refusal.response
        if response is not None:
            self._respond(stream_id, response, stream, now)
        else:
            self._handled[stream_id] = stream
        return () if command is None else (command,)

    def _run_slice(self, stream_id: int, slices: SlicedRequest, now: int) -> Sequence[Command]:
        """Run one slice of a large request."""
        stream = self._handled[stream_id]
        before = self._share.held
        command = slices.run(now)
        stream.shared += self._share.held - before
        if slices.over:
            del self._sliced[stream_id]
            self._share.give(stream.shared)
            stream.shared = 0
            if slices.response is not None and self._handled.pop(stream_id, None) is not None:
                self._respond(stream_id, slices.response, stream, now)
        return () if command is None else (command,)

    def cancelled(self, stream_id: int, now: int) -> Sequence[Command]:
        """The peer has reset the stream. A command in progress continues; its answer is discarded or undone."""
        self._arriving.pop(stream_id, None)
        if self._flows.has(stream_id):
            return self._flows.cancelled(stream_id, now)
        stream = self._handled.get(stream_id)
        if self._sliced.pop(stream_id, None) is not None and stream is not None:
            self._share.give(stream.shared)
            del self._handled[stream_id]
            return ()
        if stream is not None:
            stream.reset = True
        return ()

    def answer(self, event: Event, now: int) -> None:
        """The event of a command. Events without a ticket do not concern HTTP."""
        ticket = getattr(event, "ticket", None)
        if not isinstance(ticket, tuple) or ticket[0] is not self:
            return
        if self._flows.has(ticket[1]):
            self._undo_commands += self._flows.answer(ticket[1], event, now)
            return
        if len(ticket) == 3:
            self._collect(event, ticket[1], now)
            return
        stream = self._finished(ticket[1])
        if stream is None or stream.handler is None:
            return
        handler = stream.handler
        if stream.reset:
            self._undo_commands += large_answer.undo(handler, event, ticket)
            return
        if handler.repeatable:
            room = 0 if self._reply.is_full() else ANSWER_BYTES_MAX
            response, undo = large_answer.respond(handler, event, ticket, room, self._reply.pending(0))
            self._undo_commands += undo
        else:
            response = handler.finish(event)
        self._respond(ticket[1], response, stream, now)

    def _finished(self, stream_id: int) -> _Stream | None:
        """The stream of a request that is answered now. The answer may come before the last slice, which does nothing more."""
        stream = self._handled.pop(stream_id, None)
        if stream is not None and self._sliced.pop(stream_id, None) is not None:
            self._share.give(stream.shared)
            stream.shared = 0
        return stream

    def _collect(self, event: Event, stream_id: int, now: int) -> None:
        """The event of one of several commands of a request."""
        stream = self._handled.get(stream_id)
        if stream is None or stream.handler is None:
            return
        response = stream.handler.collect(event)
        if response is not None:
            self._finished(stream_id)
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
            self._undo_commands += flow.gone(0)
        if stream.head_only or not response.body:
            self._reply.respond(stream_id, headers, end)
            return
        self._reply.respond(stream_id, headers, False)
        self._reply.send(stream_id, response.body, end)

    def drain(self, now: int) -> Sequence[Command]:
        """The node stops: incomplete requests are answered with 503."""
        for stream_id, stream in self._arriving.items():
            if not stream.linger_until:
                stopping = problem(503, ErrorCode.DRAINING.value, "the node stops: send the request again, to another node")
                self._respond(stream_id, stream.refusal or stopping, stream, now)
        self._arriving.clear()
        self._flows.drain()
        return ()

    def deadline(self) -> int | None:
        """The earliest deadline of incomplete requests; 0 while an undo command is queued; None for never."""
        if self._undo_commands:
            return 0
        flows = self._flows.deadline() if len(self._flows) else None
        if not self._arriving and not self._sliced:
            return flows
        due = [stream.deadline() for stream in self._arriving.values()] + [slices.due for slices in self._sliced.values()]
        return min(due if flows is None else [*due, flows])

    def expire(self, now: int) -> Sequence[Command]:
        """Answer late requests with 408, end streams that have lingered, return the undo commands."""
        for stream_id in [one for one, stream in self._arriving.items() if stream.deadline() <= now]:
            stream = self._arriving.pop(stream_id)
            if stream.linger_until:
                self._reply.send(stream_id, b"", True)
            else:
                late = problem(408, "request-timeout", "the request did not arrive in time")
                self._respond(stream_id, stream.refusal or late, stream, now)
        commands, self._undo_commands = self._undo_commands, []
        if len(self._flows):
            commands += self._flows.expire(now)
        if self._sliced:
            # One slice in a turn, however late it is: what it leaves over is due at once, in the next turn.
            stream_id, slices = min(self._sliced.items(), key=_due)
            if slices.due <= now:
                commands += self._run_slice(stream_id, slices, now)
        return commands


def _due(item: tuple[int, SlicedRequest]) -> int:
    return item[1].due
