"""Listening stream sockets: one pump for each connection, and no task."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, final

from gateway.connection.pump import Pump

BACKLOG: Final = 1024
"""Connections that wait to be accepted: the kernel drops further ones, and their clients try again after a second."""


def half_close(transport: asyncio.Transport) -> None:
    """End the sending side when the queued bytes have been written; the receiving side stays open until the peer closes."""
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
        """Accept connections, each with a pump from `make`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(make, sock=self.socket, backlog=BACKLOG)  # type: ignore[arg-type]

    def close(self) -> None:
        """Accept no more connections. Open connections stay open."""
        if self._server is not None:
            self._server.close()
        self.socket.close()
