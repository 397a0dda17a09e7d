"""Listening on stream sockets: one pump a connection, none of them a task."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, final

from gateway.connection.pump import Pump

BACKLOG: Final = 1024


def half_close(transport: asyncio.Transport) -> None:
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
