"""Gateways before the simulated node: clients connect to them, and what they ask is carried out by the node."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from domain.limits import MILLISECOND_NS
from gateway.cluster.forwarding.forwarders import Forwarders
from gateway.cluster.forwarding.traffic import Traffic
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.node.composition import Parts
from gateway.observe.counters import CounterRegistry
from protocols.remoting.nodes.forwarding.stream import UNSIZED, VERSIONS
from tests.far_node import NodeLink, life
from tests.simulation.kit.clock import ProcessClock
from tests.simulation.kit.links import DatagramLink, Link, end_clients
from tests.simulation.ledger import Traced

if TYPE_CHECKING:
    from tests.simulation.kit.clock import VirtualClock
    from tests.simulation.ledger import Ledger


class SimulatedGateway:
    """One life of a gateway: its connection to the node, and the links of its clients.

    handler   carries out what its clients want
    """

    def __init__(self, parts: Parts, clock: VirtualClock, ledger: Ledger, chance: random.Random, loss: float) -> None:
        """It has one connection or several, and is of this version of the frames or of the one before."""
        self.life = ProcessClock(clock)
        self.links: list[Link | DatagramLink] = []
        self._chance = chance
        lives = [life() for _ in range(chance.choice((1, 3)))]
        forwarders = Forwarders(
            self.life,
            "DefaultCluster",
            "gateway",
            lives,
            chance.choice((VERSIONS, (UNSIZED,))),
            lambda _why, clients: end_clients(self.links, clients),
            Traffic,
        )
        self._nodes = [
            NodeLink(parts.gate, self.life, chance.randrange(1 << 30), loss, forwarder=each) for each in forwarders.each
        ]
        self.handler = forwarders.handler
        self.context = ConnectionContext(
            Traced(clock, ledger, forwarders.handler), self.life, CounterRegistry(), ConnectionLimits(10_000),
            unfinished_bytes=forwarders.unanswered_bytes,
        )  # fmt: skip

    def hang_one(self, hang_ns: int) -> None:
        """One of the connections to the node carries nothing for a while."""
        self._chance.choice(self._nodes).hang(hang_ns)

    def kill(self) -> None:
        """Kill the gateway: the node and the clients see their connections end."""
        for node in self._nodes:
            node.die()
        self.life.alive = False
        for link in self.links:
            link.vanish()


class SimulatedGateways:
    """As many gateways as a run has, whose clients come to them by turns; those that are down are passed over."""

    def __init__(self, clock: VirtualClock, ledger: Ledger, chance: random.Random, count: int, loss: float) -> None:
        self._clock = clock
        self._ledger = ledger
        self._chance = chance
        self._loss = loss
        self._alive: list[SimulatedGateway | None] = [None] * count
        self._next = 0
        self.kills = 0

    def start(self, parts: Parts) -> None:
        """Start all that are down."""
        for at, known in enumerate(self._alive):
            if known is None:
                self._alive[at] = SimulatedGateway(parts, self._clock, self._ledger, self._chance, self._loss)

    def pick(self) -> SimulatedGateway | None:
        """The gateway that the next client comes to."""
        for _ in self._alive:
            self._next = (self._next + 1) % len(self._alive)
            if self._alive[self._next] is not None:
                return self._alive[self._next]
        return None

    def kill_all(self) -> None:
        """The machine of all goes down."""
        for at in range(len(self._alive)):
            self._kill(at)

    def kill_one(self, parts: Callable[[], Parts | None]) -> None:
        """Kill one of them; it starts again after a while, if the node runs then."""
        at = self._chance.randrange(len(self._alive))
        if self._alive[at] is None:
            return
        self._kill(at)
        self.kills += 1
        self._ledger.note(f"{self._clock.monotonic_ns()} gateway {at} killed")
        away_ns = int(self._chance.uniform(5, 300)) * MILLISECOND_NS
        self._clock.call_at(self._clock.monotonic_ns() + away_ns, lambda: self._restart(parts()))

    def hang_one(self, hang_ns: int) -> None:
        """A connection of one of them carries nothing for a while."""
        gateway = self._alive[self._chance.randrange(len(self._alive))]
        if gateway is not None:
            gateway.hang_one(hang_ns)

    def _restart(self, parts: Parts | None) -> None:
        if parts is not None:
            self.start(parts)

    def _kill(self, at: int) -> None:
        gateway, self._alive[at] = self._alive[at], None
        if gateway is not None:
            gateway.kill()
