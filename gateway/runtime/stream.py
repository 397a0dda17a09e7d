"""Listening stream sockets: one pump for each connection, and no task."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Final, final

from gateway.connection.pump import Pump

BACKLOG: Final = 1024
"""Connections that wait to be accepted: the kernel drops further ones, and their clients try again after a second."""

ACCEPTED_MAX: Final = 64
"""Connections of one port that are reset in one turn of the loop."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: the peer gets a reset."""


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


@final
class ResettingListeners:
    """Resets connections to bound stream sockets until `stop`: clients of a node that waits for its store try elsewhere."""

    def __init__(self, sockets: Iterable[socket.socket], loop: asyncio.AbstractEventLoop) -> None:
        self._sockets = [each for each in sockets if each.type == socket.SOCK_STREAM]
        self._loop = loop
        for bound in self._sockets:
            bound.listen(ACCEPTED_MAX)
            loop.add_reader(bound, self._reset, bound)

    def _reset(self, bound: socket.socket) -> None:
        for _ in range(ACCEPTED_MAX):
            try:
                accepted, _ = bound.accept()
            except OSError:  # there is no more, or it has gone already
                return
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            accepted.close()

    def stop(self) -> None:
        """Leave the sockets to who serves them."""
        for bound in self._sockets:
            self._loop.remove_reader(bound)
