"""All ports for clients of a node that does not serve them yet, until it does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from enum import Enum
from typing import Protocol, final

from gateway.runtime.startup_ports.datagrams import Refusal, RefusedDatagrams
from gateway.runtime.startup_ports.listeners import ClosedListeners, ResettingListeners


class _PortsKept(Protocol):
    """Some of the ports."""

    def stop(self) -> None:
        """Leave them to who serves them."""


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
        self._parts: list[_PortsKept] = [
            ResettingListeners(streams if waiting is WaitingFor.OTHER_STORE else (), loop),
            ClosedListeners(streams if is_follower else ()),
            RefusedDatagrams(datagrams, loop),
        ]

    def stop(self) -> None:
        """Leave the sockets to who serves them."""
        for part in self._parts:
            part.stop()
