"""Common parts of both `:consume` requests: credentials, web pages that may read, the format, the opening of a WebSocket."""

from __future__ import annotations

from typing import Final

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType

from domain.errors import ErrorCode
from protocols.http.access import identify
from protocols.http.argument import flag, number
from protocols.http.flow import Flow
from protocols.http.handler import Handler, Match
from protocols.http.path import query
from protocols.http.problem import RefusalError, problem, refuse
from protocols.http.request import Request
from protocols.http.response import Fields, Response
from protocols.http.streams.source import CREDIT_MAX, Source
from protocols.http.streams.websocket import SocketFlow
from protocols.http.streams.writer import Lines, ServerEvents, TextFrames, Writer
from protocols.websocket_frame import accept, is_key

VERSION: Final = (b"sec-websocket-version", b"13")
COMMON: Final = ("format", "text", "credit", "access_token")
"""Parameters of both requests."""
_FORMATS: Final = ("ndjson", "sse")


class ConsumeHandler(Handler):
    """A GET that is answered by a stream of messages.

    Parameters of both: `format` (`ndjson` or `sse`, instead of Accept), `text` (true: bodies that are UTF-8 are the member
    `text` instead of `body`), `credit` (WebSocket: messages to send at first, 0), `access_token` (instead of Authorization).
    """

    __slots__ = ("_accept", "_credit", "_frames", "_is_event", "_text", "_tunnel")

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self.long_poll = True
        self._accept = b""
        self._credit = 0
        self._frames: Frames | None = None
        self._is_event = self._text = self._tunnel = False

    def admit(self, request: Request) -> None:
        """Refuse pages of origins that are not listed; authenticate, also by `access_token` (RFC 6750, 2.3)."""
        context = self._match.context
        context.site.check_reader(request)
        if context.authority is not None and request.method != b"OPTIONS":
            token = query(self._match.query).get("access_token", "") if self._match.query else ""
            self.principal = identify(context.authority, request, token)

    def _form(self, request: Request, asked: dict[str, str]) -> None:
        """Read the parameters of COMMON, and the fields that ask for a WebSocket. Raises RefusalError."""
        form = asked.get("format", "")
        if form and form not in _FORMATS:
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "format is ndjson or sse", parameter="format")
        self._is_event = form == "sse" or (not form and request.accepts(b"text/event-stream"))
        self._text = flag("text", asked.get("text"))
        self._credit = number("credit", asked.get("credit"), 0, CREDIT_MAX, 0)
        if request.field(b"upgrade").lower() != b"websocket":
            if "credit" in asked:
                raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "credit is for a WebSocket", parameter="credit")
            return
        self._tunnel = request.tunnel
        key = request.field(b"sec-websocket-key")
        if request.field(b"sec-websocket-version") != VERSION[1]:
            fields = [VERSION] if request.tunnel else [(b"upgrade", b"websocket"), VERSION]
            raise RefusalError(problem(426, "websocket-version", "WebSocket is spoken here in version 13", fields))
        if not request.tunnel and not is_key(key):
            raise RefusalError(problem(400, "request-syntax", "Sec-WebSocket-Key is 16 bytes in base64"))
        self._accept = accept(key)
        self._frames = Frames(ConnectionType.SERVER)

    @property
    def _writer(self) -> Writer:
        if self._frames is not None:
            return TextFrames(self._frames)
        return ServerEvents() if self._is_event else Lines()

    @property
    def _first_credit(self) -> int:
        return self._credit if self._frames is not None else -1

    def _response(self, source: Source, cursor: str) -> Response:
        """The response that `source` is the content of. Nobody keeps a copy: the request may have a token in its target."""
        fields: Fields = [(b"cache-control", b"private, no-store"), (b"x-accel-buffering", b"no")]
        status = 200
        flow: Flow = source
        if self._frames is not None:
            flow = SocketFlow(source, self._frames)
            fields.append(VERSION)
            if not self._tunnel:
                status = 101
                fields += [(b"upgrade", b"websocket"), (b"sec-websocket-accept", self._accept)]
        else:
            fields.append((b"content-type", b"text/event-stream" if self._is_event else b"application/x-ndjson"))
        if cursor:
            fields.append((b"mq-cursor", cursor.encode()))
        source.say(self._writer.start(cursor))
        response = Response(status, fields)
        response.flow = flow
        return response
