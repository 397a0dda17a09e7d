"""Parses HTTP/1.1 requests: llhttp's strict grammar, and bounds that llhttp does not check (RFC 9112).

llhttp refuses Content-Length with Transfer-Encoding, repeated lengths, line folding, bare CR and LF, NUL, malformed chunks and
a space before a colon. Checked here: the size of the head, of chunk framing and of trailers, one Host, the version, and the
limit of the content.
"""

from __future__ import annotations

from typing import Final, final

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from protocols.adapter import Peer
from protocols.http.exchange import Exchange
from protocols.http.problem import RefusalError, problem
from protocols.http.request import Request, head_fault
from protocols.http.response import Fields, Response
from protocols.http.router import Router

HEAD_BYTES_MAX: Final = 16 * 1024
TARGET_BYTES_MAX: Final = 8 * 1024
DISCARDED_BYTES_MAX: Final = 64 * 1024
FRAMING_BYTES_MAX: Final = 64 * 1024
FRAMING_PER_BYTE_MAX: Final = 8


class _StopError(Exception):
    """Raised in a callback to stop the parser after `refuse`."""


@final
class Reader:
    """Reads the requests of one connection. `feed` appends to `done`; after a refusal nothing more is parsed.

    done              requests that are complete or refused; the connection takes them out
    stopped           True: the last of `done` is refused (syntax, size, unwanted content); nothing more is parsed
    begun             True: a part of the next request has arrived
    current           the request whose head has arrived and whose content is not complete
    expects           True: the client waits for 100 (Continue)
    size              bytes of content of the current request so far
    _parser           llhttp, calling the `on_` methods
    _router           finds handlers
    _peer             address and certificate of the client
    _target           request target so far
    _fields           header fields so far
    _head_bytes       bytes of header and trailer fields so far
    _content_max      most bytes of content of the current request
    _request_bytes    bytes received since the request began, framing included
    _body             content so far
    _upgrading        True: the request asks for another protocol, and llhttp stops after its head
    _replaying        True: the callbacks ignore the head that `_decline_upgrade` feeds
    _ended            True: the last request closes the connection; what follows is discarded
    """

    __slots__ = (
        "_body",
        "_content_max",
        "_ended",
        "_fields",
        "_head_bytes",
        "_parser",
        "_peer",
        "_replaying",
        "_request_bytes",
        "_router",
        "_target",
        "_upgrading",
        "begun",
        "current",
        "done",
        "expects",
        "size",
        "stopped",
    )  # fmt: skip

    def __init__(self, router: Router, peer: Peer) -> None:
        self._router = router
        self._peer = peer
        self._parser = HttpRequestParser(self)
        self._replaying = False
        self._upgrading = False
        self._ended = False
        self._target = b""
        self._fields: Fields = []
        self._head_bytes = 0
        self._content_max = 0
        self._request_bytes = 0
        self._body: bytes | bytearray = b""
        self.size = 0
        self.begun = False
        self.current: Exchange | None = None
        self.expects = False
        self.done: list[Exchange] = []
        self.stopped = False

    def feed(self, data: bytes) -> None:
        """Parse bytes. Never raises for bytes of a peer; bytes after the last request are discarded."""
        if self.stopped or self._ended:
            return
        if self.begun:
            self._request_bytes += len(data)
        try:
            while data and not self._ended:
                try:
                    self._parser.feed_data(data)
                    data = b""
                except HttpParserUpgrade as upgrade:
                    data = data[upgrade.args[0] :]
                    self._decline_upgrade()
        except HttpParserCallbackError as error:
            if not isinstance(error.__context__, _StopError):
                raise
            return
        except HttpParserInvalidMethodError:
            self.refuse(problem(501, "method-unknown", "this is no method of HTTP"))
            return
        except HttpParserError as error:
            self.refuse(problem(400, "request-syntax", str(error)))
            return
        if self.begun:
            self._check_framing()

    def _check_framing(self) -> None:
        if self.current is None:
            if self._request_bytes > HEAD_BYTES_MAX:
                self.refuse(problem(431, "head-too-large", f"the head of a request is above {HEAD_BYTES_MAX} bytes"))
        elif self._request_bytes > HEAD_BYTES_MAX + FRAMING_BYTES_MAX + self.size * (1 + FRAMING_PER_BYTE_MAX):
            self.refuse(problem(400, "request-syntax", "there is more chunk framing than content"))

    def _decline_upgrade(self) -> None:
        """Read the content of a request with Upgrade as HTTP/1.1 (RFC 9110, 7.8). llhttp has stopped after its head.

        A second parser reads the content. It is first fed a head with the same framing, whose callbacks are ignored.
        """
        exchange = self.current
        if exchange is None or exchange.request is None:
            return
        self._upgrading = False
        self._parser = HttpRequestParser(self)
        framing = exchange.request.field(b"transfer-encoding")
        line = b"transfer-encoding: " + framing if framing else b"content-length: " + self._length(exchange.request)
        self._replaying = True
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + line + b"\r\n\r\n")

    @staticmethod
    def _length(request: Request) -> bytes:
        return request.field(b"content-length") or b"0"

    def refuse(self, response: Response, linger: bool = False) -> None:
        """Append the current request to `done` with a refusal, and stop parsing."""
        if self._ended or self.stopped:
            return
        exchange = self.current or Exchange(None, False, False)
        exchange.handler = None
        exchange.refusal = response
        exchange.keep_alive = False
        exchange.linger = linger
        self.current = None
        self.begun = self.expects = False
        self.stopped = True
        self.done.append(exchange)

    def _stop(self, response: Response, linger: bool = False) -> None:
        self.refuse(response, linger)
        raise _StopError

    # Called by llhttp

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if not self._replaying:
            self.begun = True
            self._request_bytes = 0
            self._target = b""
            self._fields = []
            self._head_bytes = 0

    def on_url(self, piece: bytes) -> None:
        """A part of the request target."""
        if not self._replaying:
            self._target += piece
            if len(self._target) > TARGET_BYTES_MAX:
                self._stop(problem(414, "target-too-long", f"the request target is above {TARGET_BYTES_MAX} bytes"), True)

    def on_header(self, name: bytes, value: bytes | None) -> None:
        """One header field, or one trailer field, which is discarded."""
        if self._replaying:
            return
        value = value or b""
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > HEAD_BYTES_MAX:
            self._stop(problem(431, "head-too-large", f"the head of a request is above {HEAD_BYTES_MAX} bytes"), True)
        if self.current is None:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is complete: find its handler, or refuse the request."""
        if self._replaying:
            self._replaying = False
            return
        if self._ended:
            raise _StopError
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop(problem(505, "version-unknown", "HTTP/1.1 is spoken here"))
        request = Request(parser.get_method(), self._target, self._fields, self._peer)
        http10 = version == "1.0"
        if http10 and request.has(b"transfer-encoding"):
            self._stop(problem(400, "request-syntax", "HTTP/1.0 has no Transfer-Encoding"))
        if request.repeated or not (http10 or request.has(b"host")):
            name = request.repeated.decode("latin-1") or "host"
            self._stop(problem(400, "request-syntax", f"a request has one field {name}"))
        exchange = Exchange(request, parser.should_keep_alive(), http10)
        self.size = 0
        self._body = b""
        self.current = exchange
        self._upgrading = request.has(b"upgrade") and parser.should_upgrade()
        if request.method == b"CONNECT":
            self._stop(problem(405, "method-not-allowed", "this is no proxy", [(b"allow", b"")]))
        framing = request.field(b"transfer-encoding")
        if framing and framing.lower() != b"chunked":
            self._stop(problem(501, "transfer-coding-unknown", "the only transfer coding here is chunked"))
        try:
            handler = self._router.find(request)
            limit = handler.content_limit(request)
            refused = head_fault(request, limit)
        except RefusalError as refusal:
            refused = refusal.response
        if refused is None:
            exchange.handler = handler
            exchange.content_max = self._content_max = limit
            self.expects = not http10 and request.has(b"expect")
            return
        length = self._length(request)
        if framing or request.has(b"expect") or len(length) > 12 or int(length) > DISCARDED_BYTES_MAX:
            self._stop(refused, True)
        exchange.refusal = refused
        self._content_max = DISCARDED_BYTES_MAX

    def on_body(self, data: bytes) -> None:
        """A part of the content, without chunk framing."""
        self.expects = False
        size = self.size + len(data)
        if size > self._content_max:
            limit = self._content_max
            self._stop(problem(413, "message-too-large", f"the content is above {limit} bytes", limit=limit), True)
        if self.size == 0:
            self._body = data
        elif self.current is not None and self.current.handler is not None:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        self.size = size

    def on_message_complete(self) -> None:
        """The request is complete."""
        exchange = self.current
        if self._upgrading or exchange is None:
            return
        self.begun = False
        self.expects = False
        self.current = None
        if not exchange.keep_alive:
            self._ended = True
        if exchange.handler is not None and exchange.request is not None:
            exchange.request.body = bytes(self._body) if self.size else b""
        self._body = b""
        self.done.append(exchange)
