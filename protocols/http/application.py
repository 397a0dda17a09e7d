"""The same handlers over HTTP/2: one application a connection (RFC 9113, section 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain import limits
from domain.command import Command
from domain.event import Event
from protocols.adapter import Peer, Setting
from protocols.http.config import desk
from protocols.http.handler import Handler
from protocols.http.problem import RefusalError, problem
from protocols.http.reader import HEAD_BYTES_MAX
from protocols.http.request import Request, content, head_fault
from protocols.http.response import DateLine, Response
from protocols.http.router import Router
from protocols.http2.application import Headers, Reply

CONTENT_BYTES_PER_S: Final = 32 * 1024


@final
class _Stream:
    """One request on its stream."""

    __slots__ = ("began", "body", "handler", "head_only", "limit", "request", "size")

    def __init__(self, request: Request, handler: Handler, limit: int, now: int) -> None:
        self.request = request
        self.handler = handler
        self.limit = limit
        self.head_only = request.method == b"HEAD"
        self.began = now
        self.body: bytes | bytearray = b""
        self.size = 0


@final
class HttpApplication:
    """`protocols.http2.application.Application`. A ticket is (application, stream id)."""

    __slots__ = ("_arriving", "_date", "_handled", "_peer", "_reply", "_router", "_wall_ms")

    def __init__(self, router: Router, date: DateLine, wall_ms: Callable[[], int], reply: Reply, peer: Peer) -> None:
        self._router = router
        self._date = date
        self._wall_ms = wall_ms
        self._reply = reply
        self._peer = peer
        self._arriving: dict[int, _Stream] = {}
        self._handled: dict[int, _Stream] = {}

    def accepts(self, headers: Headers) -> bool:
        """Every request that is not gRPC."""
        return not any(name == b"content-type" and value[:16] == b"application/grpc" for name, value in headers)

    def opened(self, stream_id: int, headers: Headers, now: int) -> Sequence[Command]:
        """A head: refused here when nobody carries it out."""
        method = target = b""
        fields: Headers = []
        size = 0
        for name, value in headers:
            size += len(name) + len(value) + 4
            if name[:1] != b":":
                fields.append((name, value))
            elif name == b":method":
                method = value
            elif name == b":path":
                target = value
        request = Request(method, target, fields, self._peer)
        try:
            if size > HEAD_BYTES_MAX:
                raise RefusalError(problem(431, "head-too-large", f"the head of a request is above {HEAD_BYTES_MAX} bytes"))
            if method == b"CONNECT":
                raise RefusalError(problem(405, "method-not-allowed", "this is no proxy", [(b"allow", b"")]))
            handler = self._router.find(request)
            limit = handler.takes(request)
            refused = head_fault(request, limit)
        except RefusalError as refusal:
            refused = refusal.response
        if refused is not None:
            self._respond(stream_id, refused, method == b"HEAD")
            return ()
        self._arriving[stream_id] = _Stream(request, handler, limit, now)
        if request.has(b"expect"):
            self._reply.respond(stream_id, [(b":status", b"100")], False)
        return ()

    def data(self, stream_id: int, data: bytes, now: int) -> Sequence[Command]:
        """Content, up to what the handler takes."""
        stream = self._arriving.get(stream_id)
        if stream is None or not data:
            return ()
        if stream.size + len(data) > stream.limit:
            limit = stream.limit
            del self._arriving[stream_id]
            response = problem(413, "message-too-large", f"the content is above {limit} bytes", limit=limit)
            self._respond(stream_id, response, stream.head_only)
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
        """The request is complete: carry it out."""
        stream = self._arriving.pop(stream_id, None)
        if stream is None:
            return ()
        request = stream.request
        request.body = bytes(stream.body)
        stream.body = b""
        try:
            if request.has(b"content-encoding"):
                request.body = content(request, stream.limit)
            command, response = stream.handler.start(request, (self, stream_id))
        except RefusalError as refusal:
            command, response = None, refusal.response
        if response is not None:
            self._respond(stream_id, response, stream.head_only)
        else:
            self._handled[stream_id] = stream
        return () if command is None else (command,)

    def cancelled(self, stream_id: int, now: int) -> Sequence[Command]:
        """Nobody waits any more: what was asked is done, and its answer dropped."""
        self._arriving.pop(stream_id, None)
        self._handled.pop(stream_id, None)
        return ()

    def answer(self, event: Event, now: int) -> None:
        """The event of a command; unasked ones do not concern HTTP."""
        ticket = getattr(event, "ticket", None)
        if not isinstance(ticket, tuple) or len(ticket) != 2 or ticket[0] is not self:
            return
        stream = self._handled.pop(ticket[1], None)
        if stream is not None:
            self._respond(ticket[1], stream.handler.finish(event), stream.head_only)

    def _respond(self, stream_id: int, response: Response, head_only: bool) -> None:
        headers = [(b":status", b"%d" % response.status), (b"date", self._date.at(self._wall_ms())), *response.fields]
        if response.status != 204:
            headers.append((b"content-length", b"%d" % len(response.body)))
        if head_only or not response.body:
            self._reply.respond(stream_id, headers, True)
            return
        self._reply.respond(stream_id, headers, False)
        self._reply.send(stream_id, response.body, True)

    def deadline(self) -> int | None:
        """When the slowest of the arriving requests is too slow: 10 s, and a second more for every 32 KiB."""
        if not self._arriving:
            return None
        return min(_due(stream) for stream in self._arriving.values())

    def expire(self, now: int) -> Sequence[Command]:
        """408 for what did not arrive in time."""
        for stream_id in [one for one, stream in self._arriving.items() if _due(stream) <= now]:
            stream = self._arriving.pop(stream_id)
            response = problem(408, "request-timeout", "the request did not arrive in time")
            self._respond(stream_id, response, stream.head_only)
        return ()


def _due(stream: _Stream) -> int:
    return stream.began + limits.FRAME_NS + stream.size * limits.SECOND_NS // CONTENT_BYTES_PER_S


@final
class HttpApplicationFactory:
    """`protocols.http2.application.ApplicationFactory`."""

    name = "http"

    def __init__(self, setting: Setting) -> None:
        self._wall_ms = setting.wall_ms
        self._router = Router(desk(setting))
        self._date = DateLine()

    def open(self, reply: Reply, peer: Peer, now: int) -> HttpApplication:
        """The application of a new connection."""
        return HttpApplication(self._router, self._date, self._wall_ms, reply, peer)
