"""Listening stream sockets: one pump for each connection, and no task."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from gateway.connection.pump import Pump

BACKLOG: Final = 1024
"""Connections that wait to be accepted: the kernel drops further ones, and their clients try again after a second."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_IN_ORDER: Final = struct.pack("ii", 0, 0)


def reset_when_killed(bound: socket.socket) -> None:
    """Have the kernel reset what is accepted at a listening socket when the process is killed, not end it in order.

    Java clients of RocketMQ before 5.0 do not fail what waits for an answer when a connection is ended in order: their long
    polls wait for 30 s more (NettyRemotingClient without `channelInactive`). A reset is an error, which they take note of.
    """
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)  # connections inherit it


def in_order(transport: asyncio.Transport) -> None:
    """Undo `reset_when_killed` for a connection that will be closed: what is written reaches the peer."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):  # its peer has reset it in this turn
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _IN_ORDER)


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
