"""One connection to a sink of webhooks: HTTP/1.1 requests one after the other, answers parsed by llhttp (RFC 9112)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, cast, final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from domain.subscription.courier import ANSWER_BYTES_MAX, SinkAnswer, Trouble

HEAD_BYTES_MAX: Final = 64 * 1024
"""Bytes of an answer before its content; informational answers count."""
HIGH_WATER: Final = 1024 * 1024

Done = Callable[[SinkAnswer], None]


def trouble_of(error: BaseException) -> SinkAnswer:
    """The answer for a request that failed with `error`: of TLS, or of the connection."""
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        return SinkAnswer(0, trouble=Trouble.TLS, text=f"TLS: {plain(error)}")
    return SinkAnswer(0, trouble=Trouble.CONNECTION, text=plain(error))


def plain(error: BaseException) -> str:
    """The words of an error; those of sockets and TLS name host and port, and no secrets."""
    return str(error)[:300] or type(error).__name__


@final
class SinkConnection:
    """One connection to a sink, with at most one request under way. It has the methods of `asyncio.Protocol`, from which a
    compiled class cannot inherit.

    idle_since   loop time since which it has none
    used         requests that were answered
    heard        True: bytes of the answer have arrived
    open         True: further requests can be sent
    """

    def __init__(self, rests: Callable[[SinkConnection], None], closed: Callable[[SinkConnection], None]) -> None:
        """`rests`: called when it can take another request; `closed`: when it is closed, once."""
        self.idle_since = 0.0
        self.used = 0
        self.heard = False
        self.open = False
        self._rests = rests
        self._closed = closed
        self._transport: asyncio.Transport | None = None
        self._done: Done | None = None
        self._parser = HttpResponseParser(self)
        self._begin()

    def _begin(self) -> None:
        """Forget the last answer."""
        self._status = 0
        self._fields: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._cut = False
        self._head_bytes = 0
        self._headed = False
        self._whole = False
        self._junk = False
        self._keep = False

    # Requests

    def ask(self, data: bytes, done: Done) -> None:
        """Send a request. `done` is called once, in a later turn; not after `end`."""
        assert self._transport is not None
        self.heard = False
        self._begin()
        self._done = done
        self._transport.write(data)

    def end(self) -> None:
        """Forget the request that is under way, and close: its answer would be taken for that of the next one."""
        self._done = None
        self.close()

    def close(self) -> None:
        """Close at once."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is connected, TLS included."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)
        self.open = True

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer; without a request they are none, and the connection is closed."""
        if self._done is None:
            self.close()
            return
        self.heard = True
        if not self._headed:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail("the sink wants another protocol")
            return
        except HttpParserError as error:
            if not self._whole:
                self._fail(f"the answer is no HTTP/1.1: {plain(error)}")
                return
            self._junk = True
        if self._whole:
            self._finish(self._keep and not self._junk)
        elif self._body_bytes >= ANSWER_BYTES_MAX:
            self._cut = True
            self._finish(False)  # what comes behind it is not read
        elif not self._headed and self._head_bytes > HEAD_BYTES_MAX:
            self._fail(f"the head of the answer has more than {HEAD_BYTES_MAX} bytes")

    def pause_writing(self) -> None:
        """A request is one write: nothing more is written before its answer."""

    def resume_writing(self) -> None:
        """As `pause_writing`."""

    def eof_received(self) -> bool:
        """The sink has closed its side: so is ours."""
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        """An answer without a length ends here (RFC 9112, 6.3)."""
        self.open = False
        if self._done is not None:
            if exc is None and self._headed and self._unbounded():
                self._finish(False)
            else:
                error = exc or ConnectionResetError("the connection was closed before the answer was whole")
                self._answer(trouble_of(error))
        self._closed(self)

    def _unbounded(self) -> bool:
        return not any(name in ("content-length", "transfer-encoding") for name, _ in self._fields)

    def _fail(self, text: str) -> None:
        self.close()
        self._answer(SinkAnswer(0, trouble=Trouble.CONNECTION, text=text))

    def _finish(self, keep: bool) -> None:
        body = b"".join(self._body)[:ANSWER_BYTES_MAX]
        cut = self._cut or self._body_bytes > ANSWER_BYTES_MAX
        answer = SinkAnswer(self._status, self._fields, body, cut=cut)
        self.used += 1
        if not keep:
            self.close()
        self._answer(answer)

    def _answer(self, answer: SinkAnswer) -> None:
        done, self._done = self._done, None
        if self.open:
            self._rests(self)  # before `done`, which may have the next request
        if done is not None:
            done(answer)

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """A further answer to the same request comes from a sink that is confused: its connection is not used again."""
        if self._whole:
            self._junk = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """One field."""
        if not self._whole:
            self._fields.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Informational answers (RFC 9110, 15.2) are passed over."""
        if self._whole:
            return
        if self._parser.get_status_code() < 200:
            self._fields = []
        else:
            self._headed = True
            self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """A part of the content; no more is kept than an answer may have."""
        if self._whole:
            return
        if self._body_bytes < ANSWER_BYTES_MAX:
            self._body.append(body)
            self._body_bytes += len(body)
        else:
            self._cut = True

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if self._headed and not self._whole:
            self._whole = True
            self._keep = self._parser.should_keep_alive()
