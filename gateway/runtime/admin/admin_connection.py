"""One connection of the admin port: bounds of its time and its bytes, and its requests one after the other."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, Protocol, cast, final

REQUEST_S: Final = 10.0
"""Seconds for a request to arrive, and again for its response to be read; of a stream, for the client to read on."""
IDLE_S: Final = 60.0
"""Seconds in which a connection that has had an answer may be quiet."""
REQUEST_BYTES_MAX: Final = 64 * 1024

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_CODING: Final = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)


class ConnectionOwner(Protocol):
    """The calls of a connection to the port that it belongs to."""

    @property
    def serve(self) -> Callable[[], Any]:
        """Make aiohttp's side of a connection."""

    def enter(self, connection: AdminConnection) -> None:
        """A new connection."""

    def leave(self, connection: AdminConnection) -> None:
        """A connection has ended."""

    def refuse(self, connection: AdminConnection) -> None:
        """Close a connection at once, and count it."""

    def wait(self, connection: AdminConnection) -> None:
        """Hand the head of `connection` to aiohttp when it is the turn of its host."""

    def served(self, connection: AdminConnection) -> None:
        """`connection` has its side of aiohttp."""


@final
class AdminConnection(asyncio.Protocol):
    """One connection: bounds its time and its bytes, and passes one request after the other to aiohttp.

    A complete head waits for its turn. What follows it goes on at once as far as it is the body, and else waits for the answer.

    host    network of the client (`domain.address.network_of_host`)
    inner   aiohttp's connection, made for the first head
    last    True: no request may follow the present one, since only aiohttp knows where its body ends
    """

    sends = False

    def __init__(self, host: str, port: ConnectionOwner) -> None:
        self.host = host
        self.inner: Any = None
        self.last = False
        self._port = port
        self._unread = bytearray()
        self._scanned = 0
        self._head_bytes = 0
        self._body_bytes = 0
        self._is_asking = False
        self._is_stream = False
        self._answered = 0
        self._size = 0
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """True after an answer, until the next request begins."""
        return self._answered > 0 and not (self._is_asking or self._unread or self._body_bytes or self.last)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the time of the request."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._port.enter(self)
        self._restart(REQUEST_S)

    def abort(self) -> None:
        """Close the connection at once."""
        self._port.leave(self)
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> None:
        """Close the connection when what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def _restart(self, seconds: float) -> None:
        """Give the connection so much time from now on."""
        self._stop_timer()
        if self._transport is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._late)

    def _late(self) -> None:
        if self.idle:
            self.end()
        else:
            self._port.refuse(self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        if self.idle:
            self._restart(REQUEST_S)
        self._size += len(data)
        if self._size > REQUEST_BYTES_MAX:
            self._port.refuse(self)
            return
        body = len(data) if self.last else min(self._body_bytes, len(data))
        if body:
            self._body_bytes -= body
            self.inner.data_received(data[:body])
        self._unread += data[body:]
        if not self._is_asking:
            self._find_head()

    def _find_head(self) -> None:
        """Have a complete head wait for its turn. What does not begin as a method does is no HTTP: aiohttp says so at once."""
        unread = self._unread
        if not unread:
            return
        end = unread.find(b"\r\n\r\n", max(0, self._scanned - 3))
        self._scanned = len(unread)
        is_http = 65 <= unread[0] <= 90
        if is_http and end < 0:
            return
        self._head_bytes = end + 4 if is_http else len(unread)
        self._is_asking = True
        self._port.wait(self)

    def take_slice(self) -> bool:
        """Hand the head to aiohttp, and of the body what has arrived."""
        if self._transport is None or self._transport.is_closing():
            return False
        if self.inner is None:
            self.inner = self._port.serve()
            self._port.served(self)
            self.inner.connection_made(self._transport)
        head = bytes(self._unread[: self._head_bytes])
        length = _LENGTH.search(head)
        self.last = length is None and _CODING.search(head) is not None
        self._body_bytes = int(length[1]) if length is not None else 0
        here = len(self._unread) if self.last else min(len(self._unread), self._head_bytes + self._body_bytes)
        self._body_bytes -= here - self._head_bytes
        given = bytes(self._unread[:here])
        del self._unread[:here]
        self._head_bytes = self._scanned = 0
        self.inner.data_received(given)
        return False

    def respond(self, *, is_stream: bool) -> None:
        """The response begins. A stream may take any time, as long as the client reads it."""
        self._is_stream = is_stream
        if is_stream:
            self._stop_timer()
        else:
            self._restart(REQUEST_S)

    def answered(self) -> None:
        """The response is written: the next request may be handed on."""
        self._is_asking = self._is_stream = False
        self._answered += 1
        self._size = len(self._unread)
        self._restart(IDLE_S if self.idle else REQUEST_S)
        self._find_head()

    def eof_received(self) -> bool:
        """The client has sent all its bytes. True: a request is there, and its response is still sent."""
        if self.inner is not None:
            self.inner.eof_received()
        return self._is_asking

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._is_stream:
            self._restart(REQUEST_S)
        if self.inner is not None:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._is_stream:
            self._stop_timer()
        if self.inner is not None:
            self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._stop_timer()
        self._transport = None
        self._port.leave(self)
        if self.inner is not None:
            self.inner.connection_lost(exc)
