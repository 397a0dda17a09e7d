"""Connections to the servers of an Apache RocketMQ cluster, over sockets. Who makes them again is `gateway.rocketmq.link`."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, cast, final

from domain.address import endpoint_text
from domain.errors import GatewayError
from gateway.rocketmq.dialer import WireUser
from gateway.runtime.outgoing.connect import connect

CONNECT_S: Final = 3.0
"""Seconds for a connection to be made, name look-up and TLS included."""
UNWRITTEN_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes that may wait for a server to read them: more than all requests that it may have unanswered."""

log = logging.getLogger("headgate.rocketmq")


@final
class SocketWire(asyncio.Protocol):
    """One connection: `gateway.rocketmq.dialer.Wire`."""

    def __init__(self, where: str, user: WireUser) -> None:
        self._where = where
        self._user = user
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    def start(self, host: str, port: int, tls: Callable[[], ssl.SSLContext | None]) -> None:
        """Begin to connect."""
        self._task = asyncio.get_running_loop().create_task(self._connect(host, port, tls))

    async def _connect(self, host: str, port: int, tls: Callable[[], ssl.SSLContext | None]) -> None:
        made = await connect(lambda: self, host, port, tls, "store.ca", CONNECT_S)
        if isinstance(made, str):
            self._end(made)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        if self._ended:
            self._transport.abort()
            return
        self._user.opened()

    def data_received(self, data: bytes) -> None:
        """Bytes of the server."""
        if self._ended:
            return
        try:
            self._user.received(data)
        except GatewayError as error:  # nonsense costs this connection
            log.warning("the connection to %s is ended: %s", self._where, error)
            self._end(str(error))
        except Exception:  # so does a bug of the gateway
            log.exception("what %s has sent could not be handled", self._where)
            self._end("what it has sent could not be handled: see the log")

    def eof_received(self) -> bool:
        """The server has closed its side."""
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is closed."""
        self._end("the connection was closed" if exc is None else f"the connection was lost ({exc})")

    def write(self, data: bytes) -> None:
        """Wire.write."""
        transport = self._transport
        if transport is None or self._ended:
            return
        if transport.get_write_buffer_size() + len(data) > UNWRITTEN_BYTES_MAX:
            asyncio.get_running_loop().call_soon(self._end, f"it does not read: {UNWRITTEN_BYTES_MAX} bytes wait for it")
            return
        transport.write(data)

    def close(self) -> None:
        """Wire.close."""
        if not self._ended:
            self._ended = True
            self._free()

    def _end(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._free()
            self._user.ended(reason)

    def _free(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        elif self._task is not None:
            self._task.cancel()


@final
class SocketDialer:
    """`gateway.rocketmq.dialer.Dialer`.

    made   connections that were tried
    """

    def __init__(self, tls: Callable[[], ssl.SSLContext | None]) -> None:
        """`tls` reads the files for a connection, and returns how it uses TLS, if it does; raises ConfigError."""
        self.made = 0
        self._tls = tls

    def dial(self, host: str, port: int, user: WireUser) -> SocketWire:
        """Dialer.dial."""
        self.made += 1
        wire = SocketWire(endpoint_text(host, port), user)
        wire.start(host, port, self._tls)
        return wire
