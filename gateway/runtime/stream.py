"""Listening stream sockets: one pump for each connection, and no task.

The loop asks again and again for a connection that it has no file descriptor to accept with. So a listener rests while there is
none: connections wait in the kernel.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from domain.errors import lacks_descriptor
from domain.hovering import HoveringState
from gateway.connection.pump import Pump
from gateway.runtime.clock import LoopClock

BACKLOG: Final = 1024
"""Connections that wait to be accepted: the kernel drops further ones, and their clients try again after a second."""
POLL_S: Final = 1.0
"""Seconds between two looks whether the process has a file descriptor left."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_IN_ORDER: Final = struct.pack("ii", 0, 0)


log = logging.getLogger("headgate.stream")


def reset_when_killed(bound: socket.socket) -> None:
    """Have the kernel reset the connections of a listening socket when the process is killed, not end them in order.

    Java clients of RocketMQ before 5.0 do not fail waiting requests when a connection is ended in order: their long polls
    wait for 30 s more (NettyRemotingClient without `channelInactive`). A reset is an error, for which they fail them.
    """
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)  # connections inherit it


def in_order(transport: asyncio.Transport) -> None:
    """Undo `reset_when_killed` for a connection that will be closed: written bytes reach the peer."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):  # its peer has reset it in this turn
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _IN_ORDER)


def end_in_order(transport: asyncio.Transport, input_ended: bool) -> None:
    """End a socket when the queued bytes have been written: its receiving side stays open until its input has ended."""
    in_order(transport)
    if not input_ended and transport.can_write_eof():
        transport.write_eof()
    else:
        transport.close()


@final
class StreamListener:
    """One listening socket.

    socket    the kernel lets connections wait at it until `close`
    _server   accepts them, at a copy of the socket; None: not yet, or there is no file descriptor left
    """

    __slots__ = ("_closed", "_loop", "_make", "_rests", "_server", "_task", "_timer", "name", "socket")

    def __init__(self, name: str, bound: socket.socket) -> None:
        self.name = name
        self.socket = bound
        self._server: asyncio.AbstractServer | None = None
        self._make: Callable[[], Pump]
        self._loop: asyncio.AbstractEventLoop
        self._rests: HoveringState | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def open(self, make: Callable[[], Pump]) -> None:
        """Accept connections, each with a pump from `make`."""
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._rests = HoveringState(LoopClock(self._loop), self._tell)
        await self._accept()
        self._poll_later()

    async def _accept(self) -> None:
        server = await self._loop.create_server(
            self._make,  # type: ignore[arg-type]
            sock=self.socket.dup(), backlog=BACKLOG,
        )  # fmt: skip
        if self._closed:
            server.close()
        else:
            self._server = server

    async def _accept_again(self) -> None:
        with suppress(OSError):  # there is no descriptor again: the next look tries it
            await self._accept()
            self._rest(False)

    def _rest(self, rests: bool) -> None:
        if self._rests is not None:
            self._rests.change(rests)

    def _tell(self, rests: bool, times: int) -> None:
        if rests:
            log.warning("port %s: no file descriptor is left; connections wait until there is one", self.name)
        else:
            often = f", for a minute now; it had rested {times} times" if times else ""
            log.warning("port %s accepts connections again%s", self.name, often)

    def _poll_later(self) -> None:
        if not self._closed:
            self._timer = self._loop.call_later(POLL_S, self._poll)

    def _poll(self) -> None:
        """Rest while the process has no file descriptor left, and go on when it has one."""
        if _descriptor_left():
            if self._server is None and (self._task is None or self._task.done()):
                self._task = self._loop.create_task(self._accept_again())
        elif self._server is not None:
            self._rest(True)
            self._server.close()
            self._server = None
        self._poll_later()

    def close(self) -> None:
        """Accept no more connections. Open connections stay open."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._rests is not None:
            self._rests.stop()
        if self._server is not None:
            self._server.close()
        self.socket.close()


def _descriptor_left() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return not lacks_descriptor(error)
    return True
