"""A flow as the content of a response of HTTP/1.1: chunks (RFC 9112, 7.1), or bare bytes behind 101 and for HTTP/1.0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.command import Command
from protocols.http.flow import Flow
from protocols.http.http1.exchange import Exchange

LAST_CHUNK: Final = b"0\r\n\r\n"


@final
class FlowOutput:
    """The response that is being written in parts; the responses of later requests wait behind it.

    raw        True: further bytes of the client belong to the flow (a WebSocket)
    _unfed     True: content came while the response of another request was written, and the flow has not got it
    _bare      True: parts are not chunks, and the end of the connection is that of the content
    _again     True: a part was written, and there may be another one. The connection is asked for output only while the client
               reads, so a client that does not read leaves this False
    """

    def __init__(self, exchange: Exchange, flow: Flow, raw: bool) -> None:
        self.exchange = exchange
        self.flow = flow
        self.raw = raw
        self.ended = False
        self._bare = raw or exchange.http10
        self._again = False
        self._unfed = exchange.feeds and not raw
        if self._bare:
            exchange.keep_alive = False

    def take(self) -> bytes:
        """The next part, as it is written; b"" when there is none."""
        if self.ended:
            return b""
        part = self.flow.take()
        self._again = part != b""
        if part:
            return part if self._bare else b"%x\r\n%b\r\n" % (len(part), part)
        if not self.flow.over:
            return b""
        self.ended = True
        return b"" if self._bare else LAST_CHUNK

    def pass_on(self, now: int) -> Sequence[Command]:
        """Pass content of the request to the flow."""
        exchange, flow = self.exchange, self.flow
        self._unfed = False
        if exchange.pieces:
            data = b"".join(exchange.pieces)
            exchange.pieces.clear()
            flow.feed(data, now)
        if exchange.fault is not None:
            flow.cut(exchange.fault.body)
        elif exchange.fed and not self.raw:
            flow.fed_all(now)
        return flow.expire(now)

    def deadline(self) -> int | None:
        """0 for content, another part or the end; else as of the flow."""
        return 0 if self._unfed or self._again or self.ended else self.flow.deadline()

    def expire(self, now: int) -> Sequence[Command]:
        """As of the flow, when it is due; the connection is asked for output behind it."""
        self._again = False
        if self._unfed:
            return self.pass_on(now)
        due = self.flow.deadline()
        return self.flow.expire(now) if due is not None and due <= now else ()
