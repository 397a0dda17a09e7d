"""A cluster under a seed: machines with replicas, controllers and gateways, the network between them, and what is seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import ClassVar

from domain.limits import MILLISECOND_NS
from domain.replication.ports import LeaderStore
from gateway.node.config import Config
from tests.simulation.cluster.checkers import Checkers
from tests.simulation.cluster.controller_node import PORT, ControllerNode
from tests.simulation.cluster.gateway_node import GatewayNode
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.store_node import REMOTING, StoreNode
from tests.simulation.cluster.timeline import Timeline
from tests.simulation.cluster.wires import Network
from tests.simulation.ledger import Ledger
from tests.simulation.network import Party
from tests.store.clock import VirtualClock

SKEW_MS = 500
"""How far the wall clocks of two machines are apart, at most: the default of `clock_skew_max_ms`."""
AGAIN_MS = 50


class Cluster:
    """The machines. It is a `tests.simulation.posters.Net`: clients connect to its gateways.

    stores        1 to 5 replicas
    controllers   three
    gateways      one or two
    connections   of each gateway to its store
    """

    made: ClassVar[list[Cluster]] = []
    """The clusters of the running test, for the report of a failure."""

    def __init__(self, seed: int, stores: int = 3, gateways: int = 1, skew_ms: int = SKEW_MS) -> None:
        self.made.append(self)
        self.seed = seed
        self.skew_ms = skew_ms
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.ledger = Ledger()
        self.timeline = Timeline(self.clock, self.ledger)
        self.net = Network(self.clock, self.chance)
        self.config = Config()
        self.connections = self.chance.choice((1, 3))
        self.controller_endpoints = [(f"10.0.2.{number}", PORT) for number in (1, 2, 3)]
        self.store_endpoints = [(f"10.0.1.{number}", REMOTING) for number in range(1, stores + 1)]
        self.checkers = Checkers(self)
        self.controllers = [
            ControllerNode(self, f"controller {number}", f"10.0.2.{number}") for number in (1, 2, 3)
        ]  # fmt: skip
        self.stores = [StoreNode(self, number, f"10.0.1.{number}") for number in range(1, stores + 1)]
        self.gateways = [GatewayNode(self, f"gateway {number}", f"10.0.3.{number}") for number in range(1, gateways + 1)]
        self._next = 0
        self.on_served: Callable[[StoreNode, LeaderStore], None] = lambda node, store: None

    @property
    def machines(self) -> list[Machine]:
        """All machines."""
        return [*self.controllers, *self.stores, *self.gateways]

    def after(self, milliseconds: float, call: Callable[[], None]) -> None:
        """Call later, in true time."""
        self.clock.call_at(self.clock.monotonic_ns() + int(milliseconds * MILLISECOND_NS), call)

    def start(self) -> None:
        """Start all machines; returns when a gateway serves clients."""
        for each in self.machines:
            each.start()
        self.clock.run_until(lambda: all(each.side is not None for each in self.gateways), 60_000)

    def leader(self) -> StoreNode | None:
        """The replica that serves clients, in the newest epoch."""
        serving = [each for each in self.stores if each.parts is not None and each.store is not None]
        return max(serving, key=lambda each: each.store.replica.epoch, default=None)  # type: ignore[union-attr]

    def served(self, node: StoreNode, store: LeaderStore) -> None:
        """A replica begins to serve clients."""
        self.checkers.served(node, store)
        self.on_served(node, store)

    def dial(self, protocol: str, party: Party) -> None:
        """Connect a client to a gateway that serves, by turns."""
        for _ in self.gateways:
            self._next = (self._next + 1) % len(self.gateways)
            gateway = self.gateways[self._next]
            if gateway.running and gateway.side is not None:
                gateway.serve(protocol, party)
                return
        self.after(AGAIN_MS, party.lost)
