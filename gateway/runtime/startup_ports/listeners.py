"""Stream ports of a node that does not serve yet: connections are reset, or refused by the kernel."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, final

ACCEPTED_MAX: Final = 64
"""Connections of one port that are reset in one turn of the loop."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: the peer gets a reset."""


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


@final
class ClosedListeners:
    """Has the kernel refuse connections to bound stream sockets until `stop`. Nobody else can bind their ports meanwhile.

    A client, a gateway or a balancer of a replica that follows learns at once that it has to go to another one. When
    connections are accepted and reset, SDKs ask the same name server again at their next poll, and a balancer's check succeeds.
    """

    def __init__(self, sockets: Iterable[socket.socket]) -> None:
        self._sockets = [each for each in sockets if each.type == socket.SOCK_STREAM]
        for bound in self._sockets:
            refuse(bound)

    def stop(self) -> None:
        """Listen again: connections wait for who accepts them."""
        for bound in self._sockets:
            admit(bound)
            bound.listen(ACCEPTED_MAX)


def refuse(bound: socket.socket) -> None:
    """Have the kernel refuse connections to a bound socket, which keeps its port."""
    where = bound.getsockname()
    with suppress(OSError):  # of Linux: it listens no more, and stays bound; elsewhere connections wait
        bound.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):  # a port that the kernel had chosen is free by now; any other is still bound
        bound.bind(where)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # else a twin could bind the port now


def admit(bound: socket.socket) -> None:
    """Undo `refuse`: the socket may listen again."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
