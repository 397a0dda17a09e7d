"""Listening on stream sockets: one pump a connection, none of them a task."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final, final

from domain.errors import ConfigError
from gateway.pump import Pump

BACKLOG: Final = 1024


def bind(name: str, host: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """A bound socket that nobody can connect to yet. Raises ConfigError, in one line, when the port cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, kind)
    bound.setblocking(False)
    if kind == socket.SOCK_STREAM:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        if kind == socket.SOCK_STREAM:
            _refuse_twin(bound)
    except OSError as error:
        bound.close()
        raise ConfigError(_why(name, host, port, error)) from error
    return bound


def _refuse_twin(bound: socket.socket) -> None:
    """SO_REUSEADDR lets two servers bind what neither listens on yet; listening at once is what tells the second one."""
    bound.listen(0)


def _why(name: str, host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} ({name}) is taken by another process: "
            f"stop it, or choose another port with --port {name}=N, or shift all of them with --port-offset N"
        )
    if error.errno == errno.EACCES:
        return f"port {port} on {host} ({name}) needs privileges: choose one above 1023 with --port {name}=N"
    return f"cannot listen on {host}:{port} ({name}): {error.strerror or error}; choose the address with --host"


def hang_up(transport: asyncio.Transport) -> None:
    """End our side when what is queued has gone out; the peer's stays open until it hangs up too."""
    if transport.can_write_eof():
        transport.write_eof()
    else:
        transport.close()


@final
class StreamListener:
    """One listening socket."""

    __slots__ = ("_server", "name", "socket")

    def __init__(self, name: str, bound: socket.socket) -> None:
        self.name = name
        self.socket = bound
        self._server: asyncio.AbstractServer | None = None

    async def open(self, make: Callable[[], Pump]) -> None:
        """Take connections from now on, each with a pump from `make`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(make, sock=self.socket, backlog=BACKLOG)  # type: ignore[arg-type]

    def close(self) -> None:
        """Take no more connections; those that there are go on."""
        if self._server is not None:
            self._server.close()
        self.socket.close()
