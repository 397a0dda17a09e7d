"""All ports for clients of a node that does not serve them yet, until it does."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Final, final

ACCEPTED_MAX: Final = 64
"""Connections of one port that are reset in one turn of the loop."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: the peer gets a reset."""
DATAGRAMS_PER_TURN: Final = 64
"""Datagrams of one port that are refused in one turn of the loop."""
LAST: Final = 4_096
"""The same when it stops: more than a buffer holds."""
DATAGRAM_BYTES_MAX: Final = 65_535

Refusal = Callable[[bytes], bytes]
"""A datagram -> the answer to its sender, not longer than the datagram; b"" for none."""


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


@final
class RefusedDatagrams:
    """Reads bound datagram sockets until `stop`, so that nothing waits in them that would be carried out long afterwards."""

    def __init__(self, ports: Iterable[tuple[socket.socket, Refusal]], loop: asyncio.AbstractEventLoop) -> None:
        self._ports = list(ports)
        self._loop = loop
        for bound, refusal in self._ports:
            loop.add_reader(bound, self._refuse, bound, refusal)

    def _refuse(self, bound: socket.socket, refusal: Refusal, most: int = DATAGRAMS_PER_TURN) -> None:
        for _ in range(most):
            try:
                data, address = bound.recvfrom(DATAGRAM_BYTES_MAX)
                answer = refusal(data)
                if answer:
                    bound.sendto(answer, address)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # a peer's port was closed (ICMP), or it cannot be reached
                continue

    def stop(self) -> None:
        """Hand over the sockets to the node that serves. Datagrams that they hold by now are refused too."""
        for bound, refusal in self._ports:
            self._refuse(bound, refusal, LAST)
            self._loop.remove_reader(bound)


class WaitingFor(Enum):
    """The event that a node waits for before it serves.

    OWN_STORE     its store is open: connections wait for it
    OTHER_STORE   the store of another node is reached: connections are reset
    ELECTION      its election; another replica leads: connections and datagrams are refused
    """

    OWN_STORE = "own store"
    OTHER_STORE = "other store"
    ELECTION = "election"


@final
class WaitingPorts:
    """Keeps bound ports until `stop`, and answers for the node meanwhile."""

    def __init__(self, waiting: WaitingFor, clients: Mapping[str, socket.socket], refusals: Mapping[str, Refusal]) -> None:
        """`clients`: listener -> its bound socket. `refusals`: datagram port -> the answer to a datagram."""
        loop = asyncio.get_running_loop()
        streams = clients.values()
        is_follower = waiting is WaitingFor.ELECTION
        datagrams = [(clients[name], refusals[name]) for name in refusals if is_follower and name in clients]
        self._parts = (
            ResettingListeners(streams if waiting is WaitingFor.OTHER_STORE else (), loop),
            ClosedListeners(streams if is_follower else ()),
            RefusedDatagrams(datagrams, loop),
        )

    def stop(self) -> None:
        """Leave the sockets to who serves them."""
        for part in self._parts:
            part.stop()
