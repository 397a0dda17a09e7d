"""Links of clients to one simulated machine, which end with its process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.node.client_side import ClientSide
from gateway.runtime.datagrams.pump import DatagramPump
from tests.simulation.kit.links import DatagramLink, Link, Party

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine


class ClusterLink(Link):
    """A link to a process that may stand still when the client connects."""

    began = False

    def start(self) -> None:
        """Link.start."""
        if self.open:
            self.began = True
            super().start()

    def reset(self) -> None:
        """Link.reset."""
        if self.began:
            super().reset()
        else:
            self.vanish()


class ClientLinks:
    """The links of one process.

    open   those that are open, and others
    """

    def __init__(self, machine: Machine) -> None:
        self.open: list[Link | DatagramLink] = []
        self._machine = machine
        self._port = 20_000

    def serve(self, side: ClientSide, context: ConnectionContext, protocol: str, party: Party) -> None:
        """A client connects."""
        clock, chance = self._machine.clock, self._machine.chance
        self._port += 1
        self.open = [link for link in self.open if link.open]
        if protocol in side.adapters.datagrams:
            datagrams = DatagramLink(clock, chance, party, self._port)
            endpoint = side.adapters.datagrams[protocol].bind(0)
            loop = cast(asyncio.AbstractEventLoop, datagrams)
            DatagramPump(context, [cast(Any, datagrams)], endpoint, protocol, loop).open()
            self.open.append(datagrams)
            party.connected(datagrams)
            return
        link = ClusterLink(
            clock, chance, Pump(context, protocol, side.adapters.streams[protocol].connect), party, self._port
        )  # fmt: skip
        self.open.append(link)
        clock.call_soon(link.start)

    def vanish(self) -> None:
        """The process is gone."""
        links, self.open = self.open, []
        for link in links:
            link.vanish()
