"""Parses HTTP/1.1 requests: heads by llhttp's strict grammar, content by its length or its chunks (RFC 9112).

Heads that arrive whole and in their plain form, which are nearly all, are read without llhttp (`heads`).

llhttp refuses Content-Length with Transfer-Encoding, repeated lengths, line folding, bare CR and LF, NUL and a space before a
colon. Checked here: the size of the head, one Host, the version, and the limit of the content.

A peer decides how many requests one segment has. `feed` parses some of them, and `resume` goes on in a later turn of the loop.
"""

from __future__ import annotations

from typing import ClassVar, Final, final

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from protocols.adapter import Peer
from protocols.host_shares import HostShare
from protocols.http.http1.chunks import ChunkReader
from protocols.http.http1.exchange import Exchange
from protocols.http.http1.heads import HEAD_BYTES_MAX as PLAIN_BYTES_MAX
from protocols.http.http1.heads import Heads
from protocols.http.problem import RefusalError, head_too_large, problem, target_too_long
from protocols.http.request import HEAD_BYTES_MAX, TARGET_BYTES_MAX, Request, is_discardable, no_room
from protocols.http.response import Fields, Response
from protocols.http.router import Router

REQUESTS_PER_TURN_MAX: Final = 64
"""Requests of one connection that are parsed in one turn of the loop."""
EMPTY_LINES_MAX: Final = 4
"""Pairs of empty lines that are skipped before a request (RFC 9112, 2.2)."""

_HEAD_END: Final = b"\r\n\r\n"


class _StopError(Exception):
    """Raised in a callback to stop the parser after `refuse`."""


@final
class Reader:
    """Reads the requests of one connection. `feed` appends to `done`; after a refusal nothing more is parsed.

    A request whose content is passed on as it arrives (`Exchange.feeds`) is appended with its head.

    done              requests that are complete or refused; the connection takes them out
    stopped           True: the last of `done` is refused (syntax, size, unwanted content); nothing more is parsed
    begun             True: a part of the next request has arrived
    current           the request whose head has arrived and whose content is not complete
    size              bytes of content of the current request so far
    share             the bytes of content that arrived in several pieces, until their request has become a command
    _segments         bytes for `resume`: further requests or chunks
    _parser           llhttp for heads, calling the `on_` methods; None: it is made for the next head that is not plain
    _tail             the last three bytes of an incomplete head
    _empty_lines      ends of heads since the last request that had none before them
    _length           bytes of content of the current request by its Content-Length
    _counting         True: llhttp counts the content of the current request by its Content-Length, too
    _chunks           decodes the content of the current request; None: it has a length
    _ended            True: the last request closes the connection; further bytes are discarded
    """

    # Callbacks of llhttp that are not wanted. A parser asks for them when it is made, and each absent one costs an exception.
    on_body: ClassVar[None] = None
    on_message_complete: ClassVar[None] = None
    on_chunk_header: ClassVar[None] = None
    on_chunk_complete: ClassVar[None] = None
    on_status: ClassVar[None] = None

    def __init__(self, router: Router, heads: Heads, peer: Peer) -> None:
        self._router = router
        self._heads = heads
        self._peer = peer
        self._parser: HttpRequestParser | None = None
        self._ended = False
        self._target = b""
        self._fields: Fields = []
        self._field_bytes = 0
        self._head_bytes = 0
        self._tail = b""
        self._empty_lines = 0
        self._length = 0
        self._counting = True
        self._chunks: ChunkReader | None = None
        self._body: bytes | bytearray = b""
        self.size = 0
        self.share = HostShare(router.uploads, peer.host)
        self.begun = False
        self.current: Exchange | None = None
        self.expects = False
        self.done: list[Exchange] = []
        self._segments: list[bytes] = []  # a deque takes 700 bytes of each connection
        self._at = 0
        self.stopped = False

    @property
    def behind(self) -> bool:
        """True when bytes wait for `resume`."""
        return len(self._segments) > 0

    def feed(self, data: bytes) -> None:
        """Parse bytes, or keep them while others wait. Never raises for bytes of a peer.

        Bytes after the last request are discarded.
        """
        if self.stopped or self._ended:
            return
        self._segments.append(data)
        if len(self._segments) == 1:
            self.resume()

    def resume(self) -> None:
        """Parse bytes that wait, up to REQUESTS_PER_TURN_MAX requests or the chunks of one call."""
        segments = self._segments
        while segments and len(self.done) < REQUESTS_PER_TURN_MAX:
            data = segments[0]
            at = self._parse(data, self._at)
            if self.stopped or self._ended:
                segments.clear()
                return
            if at < len(data):
                self._at = at
                return
            del segments[0]
            self._at = 0

    def _parse(self, data: bytes, at: int) -> int:
        """Parse `data` from `at` on, and return where a later turn goes on."""
        while at < len(data) and len(self.done) < REQUESTS_PER_TURN_MAX and not self.stopped and not self._ended:
            chunks = self._chunks
            if chunks is not None:
                at = self._take_chunks(chunks, data, at)
                if not chunks.over:  # not `self._chunks` again: compiled code takes it for what it was before the call
                    break
            elif self.current is not None:
                end = min(len(data), at + self._length - self.size)
                piece = data[at:end]
                if self._counting and self._parser is not None:
                    self._parser.feed_data(piece)
                self._add(piece)
                at = end
            else:
                end = -1 if self.begun or self._tail else self._take_plain_head(data, at)
                at = end if end >= 0 else self._take_head(data, at)
        return at

    def _take_plain_head(self, data: bytes, at: int) -> int:
        """Read a whole head in its plain form -> the position behind it. -1: llhttp has to read it."""
        end = data.find(_HEAD_END, at)
        if end < 0 or end - at > PLAIN_BYTES_MAX:
            return -1
        request = self._heads.read(data[at:end], self._peer)
        if request is None:
            return -1
        self.begun = True
        self._counting = False
        try:
            self._judge(request, True, False)
        except _StopError:
            return end + 4
        if self.current is not None:
            self._head_over(self.current)
        return end + 4

    def _take_head(self, data: bytes, at: int) -> int:
        """Pass bytes up to the end of the head to llhttp."""
        end = self._head_end(data, at)
        piece = data[at:end] if at or end < len(data) else data
        self._head_bytes += len(piece)
        parser = self._parser
        if parser is None:
            parser = self._parser = HttpRequestParser(self)
        self._counting = True
        try:
            parser.feed_data(piece)
        except HttpParserUpgrade:
            # Upgrade is declined by answering the request as HTTP/1.1 (RFC 9110, 7.8); llhttp has stopped after its head.
            self._parser = None
            self._counting = False
        except HttpParserCallbackError as error:
            if not isinstance(error.__context__, _StopError):
                raise
            return end
        except HttpParserInvalidMethodError:
            self.refuse(problem(501, "method-unknown", "this is no method of HTTP"))
            return end
        except HttpParserError as error:
            self.refuse(problem(400, "request-syntax", str(error)))
            return end
        if self.current is not None:
            self._head_over(self.current)
        elif self._head_bytes > HEAD_BYTES_MAX:
            self.refuse(head_too_large("the head of a request", HEAD_BYTES_MAX))
        elif not self._tail:
            self._empty_lines += 1
            if self._empty_lines > EMPTY_LINES_MAX:
                self.refuse(problem(400, "request-syntax", "there are empty lines where a request should begin"))
        return end

    def _head_end(self, data: bytes, at: int) -> int:
        """The position after the empty line that ends the head, len(data) while it is incomplete."""
        tail = self._tail
        if tail:
            found = (tail + data[at : at + 3]).find(_HEAD_END)
            if found >= 0:
                self._tail = b""
                return at + found + 4 - len(tail)
        found = data.find(_HEAD_END, at) if at else data.find(_HEAD_END)
        if found >= 0:
            self._tail = b""
            return found + 4
        self._tail = (tail + data[at:])[-3:]
        return len(data)

    def _head_over(self, exchange: Exchange) -> None:
        """Go on with the content. A request without content is complete.

        llhttp passes over content that has a length, which is cheaper than a new parser. It is not given chunks.
        """
        self._empty_lines = 0
        if exchange.feeds:
            self.done.append(exchange)
        if self._chunks is not None:
            self._parser = None
        elif not self._length:
            self._complete(exchange)

    def _take_chunks(self, chunks: ChunkReader, data: bytes, at: int) -> int:
        pieces: list[bytes] = []
        try:
            at = chunks.take(data, at, pieces)
        except RefusalError as refusal:
            self.refuse(refusal.response)
            return len(data)
        if pieces:
            self._add(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if chunks.over and self.current is not None:
            self._complete(self.current)
        return at

    def refuse(self, response: Response) -> None:
        """Append the current request to `done` with a refusal, and stop parsing."""
        if self._ended or self.stopped:
            return
        exchange = self.current or Exchange(None, False, False)
        exchange.keep_alive = False
        if exchange.feeds:
            exchange.fault = response
        else:
            exchange.handler = None
            exchange.refusal = response
        self.current = None
        self._chunks = None
        self._body = b""
        self.begun = self.expects = False
        self.stopped = True
        if not exchange.feeds:
            self.done.append(exchange)

    def stop(self, response: Response) -> None:
        """Parse nothing more, and refuse a request that is incomplete."""
        self._segments.clear()
        if self.begun:
            self.refuse(response)
        self.stopped = True

    def _stop(self, response: Response) -> None:
        self.refuse(response)
        raise _StopError

    # Called by llhttp

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self.begun = True
        self._target = b""
        self._fields = []
        self._field_bytes = 0

    def on_url(self, piece: bytes) -> None:
        """A part of the request target."""
        self._target += piece
        if len(self._target) > TARGET_BYTES_MAX:
            self._stop(target_too_long(TARGET_BYTES_MAX))

    def on_header(self, name: bytes, value: bytes | None) -> None:
        """One header field."""
        value = value or b""
        self._field_bytes += len(name) + len(value) + 4
        if self._field_bytes > HEAD_BYTES_MAX:
            self._stop(head_too_large("the head of a request", HEAD_BYTES_MAX))
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The end of a head."""
        parser = self._parser
        assert parser is not None
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop(problem(505, "version-unknown", "HTTP/1.1 is spoken here"))
        request = Request(parser.get_method(), self._target, self._fields, self._peer)
        self._judge(request, parser.should_keep_alive(), version == "1.0")

    def _judge(self, request: Request, keep_alive: bool, http10: bool) -> None:
        """A head is complete: find the handler of its request, or refuse it, raising _StopError when nothing more is parsed."""
        if http10 and request.has(b"transfer-encoding"):
            self._stop(problem(400, "request-syntax", "HTTP/1.0 has no Transfer-Encoding"))
        if request.repeated or not (http10 or request.has(b"host")):
            name = request.repeated.decode("latin-1") or "host"
            self._stop(problem(400, "request-syntax", f"a request has one field {name}"))
        exchange = Exchange(request, keep_alive, http10)
        self.size = self._head_bytes = 0
        self._body = b""
        self.current = exchange
        framing = request.field(b"transfer-encoding")
        if framing and framing.lower() != b"chunked" and request.method != b"CONNECT":
            self._stop(problem(501, "transfer-coding-unknown", "the only transfer coding here is chunked"))
        exchange.judge(request, self._router)
        refused = exchange.refusal
        if refused is None:
            self.expects = not http10 and request.has(b"expect")
        elif framing or request.method == b"CONNECT" or not is_discardable(request):
            self._stop(refused)
        self._length = request.length
        self._chunks = ChunkReader(exchange.content_max) if framing else None

    def _add(self, data: bytes) -> None:
        """A part of the content, without chunk framing."""
        self.expects = False
        exchange = self.current
        if exchange is None:
            return
        before = self.size
        self.size += len(data)
        whole = self._chunks is None and self.size == self._length
        if exchange.feeds:
            exchange.pieces.append(data)
        elif exchange.handler is not None:
            if before or not whole:
                if not self.share.take(len(data)):
                    self.refuse(no_room().response)
                    return
                exchange.shared += len(data)
            if before == 0:
                self._body = data
            else:
                if isinstance(self._body, bytes):
                    self._body = bytearray(self._body)
                self._body += data
        if whole:
            self._complete(exchange)

    def _complete(self, exchange: Exchange) -> None:
        self.begun = False
        self.expects = False
        self.current = None
        self._chunks = None
        if not exchange.keep_alive:
            self._ended = True
        if exchange.feeds:
            exchange.fed = True
            return
        if exchange.handler is not None and exchange.request is not None:
            exchange.request.body = bytes(self._body) if self.size else b""
        self._body = b""
        self.done.append(exchange)
