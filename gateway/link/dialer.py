"""Connections to other servers over sockets: `gateway.link.wire.Dialer`."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, cast, final

from domain.address import endpoint_text
from domain.errors import ConfigError, GatewayError
from gateway.link.wire import WireUser

CONNECT_S: Final = 3.0
"""Seconds for a connection to be made, name look-up and TLS included."""
UNWRITTEN_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes that may wait for a server to read them: more than all requests that it may have unanswered."""

log = logging.getLogger("headgate.link")


@final
class SocketWire(asyncio.Protocol):
    """One connection: `gateway.link.wire.Wire`."""

    def __init__(
        self, host: str, port: int, user: WireUser, unwritten_bytes_max: int, on_full: Callable[[bool], None] | None
    ) -> None:
        self._host = host
        self._port = port
        self._user = user
        self._unwritten_bytes_max = unwritten_bytes_max
        self._on_full = on_full
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._reading = True
        self._ended = False

    def start(self, tls: Callable[[], ssl.SSLContext | None], setting: str, within_s: float) -> None:
        """Begin to connect; the arguments are those of `SocketDialer`."""
        self._task = asyncio.get_running_loop().create_task(self._connect(tls, setting, within_s))

    async def _connect(self, tls: Callable[[], ssl.SSLContext | None], setting: str, within_s: float) -> None:
        failure = ""
        try:
            context = tls()
            name = self._host if context is not None else None
            loop = asyncio.get_running_loop()
            connecting = loop.create_connection(lambda: self, self._host, self._port, ssl=context, server_hostname=name)
            await asyncio.wait_for(connecting, within_s)
        except TimeoutError:
            failure = f"no connection within {within_s:g} s"
        except ssl.SSLCertVerificationError as error:
            failure = f"its certificate is not valid here ({error.verify_message}): see {setting}"
        except ConfigError as error:
            failure = str(error)
        except OSError as error:
            failure = f"no connection ({error.strerror or error})"
        except ValueError as error:  # of the codec of host names
            failure = f"its host name cannot be looked up ({error})"
        self._task = None
        if failure:
            self._end(failure)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        if self._ended:
            self._transport.abort()
            return
        if self._on_full is not None:
            self._transport.set_write_buffer_limits(self._unwritten_bytes_max)
        if not self._reading:
            self._transport.pause_reading()
        self._user.opened()

    def data_received(self, data: bytes) -> None:
        """Bytes of the server."""
        if self._ended:
            return
        try:
            self._user.received(data)
        except GatewayError as error:  # nonsense costs this connection
            log.warning("the connection to %s is ended: %s", endpoint_text(self._host, self._port), error)
            self._end(str(error))
        except Exception:  # so does a bug of the gateway
            log.exception("what %s has sent could not be handled", endpoint_text(self._host, self._port))
            self._end("what it has sent could not be handled: see the log")

    def eof_received(self) -> bool:
        """The server has closed its side."""
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is closed."""
        self._end("the connection was closed" if exc is None else f"the connection was lost ({exc})")

    def pause_writing(self) -> None:
        """The server does not read."""
        if self._on_full is not None and not self._ended:
            self._on_full(True)

    def resume_writing(self) -> None:
        """The server has read."""
        if self._on_full is not None and not self._ended:
            self._on_full(False)

    def write(self, data: bytes) -> None:
        """Wire.write."""
        transport = self._transport
        if transport is None or self._ended:
            return
        if self._on_full is None and transport.get_write_buffer_size() + len(data) > self._unwritten_bytes_max:
            reason = f"it does not read: {self._unwritten_bytes_max} bytes wait for it"
            asyncio.get_running_loop().call_soon(self._end, reason)
            return
        transport.write(data)

    def set_reading(self, reading: bool) -> None:
        """Wire.set_reading."""
        if reading is not self._reading:
            self._reading = reading
            if self._transport is not None and not self._ended:
                (self._transport.resume_reading if reading else self._transport.pause_reading)()

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
    """`gateway.link.wire.Dialer`."""

    def __init__(
        self,
        tls: Callable[[], ssl.SSLContext | None],
        setting: str,
        connect_s: float = CONNECT_S,
        unwritten_bytes_max: int = UNWRITTEN_BYTES_MAX,
    ) -> None:
        """`tls` reads the files for a connection, and returns how it uses TLS, if it does; raises ConfigError.

        setting               the one that names the authorities of the servers' certificates, as in `store.ca`
        connect_s             seconds for one attempt, name look-up and TLS included
        unwritten_bytes_max   bytes that may wait for one server to read them
        """
        self._tls = tls
        self._setting = setting
        self._connect_s = connect_s
        self._unwritten_bytes_max = unwritten_bytes_max

    def dial(self, host: str, port: int, user: WireUser, on_full: Callable[[bool], None] | None = None) -> SocketWire:
        """Dialer.dial."""
        wire = SocketWire(host, port, user, self._unwritten_bytes_max, on_full)
        wire.start(self._tls, self._setting, self._connect_s)
        return wire
