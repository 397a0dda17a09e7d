"""A cluster under a seed: machines with replicas, controllers and gateways, the network between them, and what is seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import ClassVar

from domain.limits import MILLISECOND_NS
from domain.replication.ports import LeaderStore
from tests.simulation.cluster.checkers import Checkers
from tests.simulation.cluster.controller_node import PORT, ControllerNode
from tests.simulation.cluster.gateway_node import GatewayNode
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.store_group import SimGroup
from tests.simulation.cluster.store_node import StoreNode
from tests.simulation.cluster.timeline import Timeline
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.links import Party
from tests.simulation.kit.wires import Network
from tests.simulation.ledger import Ledger

SKEW_MS = 500
"""How far the wall clocks of two machines are apart, at most: the default of `clock_skew_max_ms`."""
OTHER_STORES = 2
"""Replicas of the second group."""


class Cluster:
    """The machines. It is a `tests.simulation.posters.Net`: clients connect to the gateways of its first group.

    groups        one or two store groups
    controllers   three, for all groups
    connections   of each gateway to its store
    off           the replica whose clock is off by more than is allowed; None: all clocks are right
    """

    made: ClassVar[list[Cluster]] = []
    """The clusters of the running test, for the report of a failure."""

    def __init__(
        self, seed: int, stores: int = 3, gateways: int = 1, skew_ms: int = SKEW_MS, groups: int = 1, off_ms: int = 0
    ) -> None:
        """`stores` and `gateways` of the first group; `off_ms`: how far the clock of one of its replicas is off."""
        self.made.append(self)
        self.seed = seed
        self.skew_ms = skew_ms
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.ledger = Ledger()
        self.timeline = Timeline(self.clock, self.ledger)
        self.net = Network(self.clock, self.chance)
        self.connections = self.chance.choice((1, 3))
        self.controller_endpoints = [(f"10.0.2.{number}", PORT) for number in (1, 2, 3)]
        self.controllers = [
            ControllerNode(self, f"controller {number}", f"10.0.2.{number}") for number in (1, 2, 3)
        ]  # fmt: skip
        self.groups = [SimGroup(self, 1, stores, gateways)]
        self.groups += [SimGroup(self, number, OTHER_STORES, 1) for number in range(2, groups + 1)]
        self.off: StoreNode | None = None
        if off_ms:
            self.off = self.chance.choice(self.groups[0].stores)
            self.off.time.offset_ms = off_ms
            self.timeline.note(self.off.name, f"has a clock that is {off_ms} ms ahead")
        self.on_served: Callable[[StoreNode, LeaderStore], None] = lambda node, store: None

    @property
    def stores(self) -> list[StoreNode]:
        """The replicas of all groups."""
        return [each for group in self.groups for each in group.stores]

    @property
    def gateways(self) -> list[GatewayNode]:
        """The gateways of all groups."""
        return [each for group in self.groups for each in group.gateways]

    @property
    def checkers(self) -> Checkers:
        """What must be true of the first group."""
        return self.groups[0].checkers

    @property
    def machines(self) -> list[Machine]:
        """All machines."""
        return [*self.controllers, *self.stores, *self.gateways]

    def after(self, milliseconds: float, call: Callable[[], None]) -> None:
        """Call later, in true time."""
        self.clock.call_at(self.clock.monotonic_ns() + int(milliseconds * MILLISECOND_NS), call)

    def start(self) -> None:
        """Start all machines; returns when every gateway serves clients."""
        for each in self.machines:
            each.start()
        self.clock.run_until(lambda: all(each.side is not None for each in self.gateways), 60_000)

    def leader(self) -> StoreNode | None:
        """The replica of the first group that serves clients, in the newest epoch."""
        return self.groups[0].leader()

    def served(self, node: StoreNode, store: LeaderStore) -> None:
        """A replica begins to serve clients."""
        node.group.checkers.served(node, store)
        self.on_served(node, store)

    def dial(self, protocol: str, party: Party) -> None:
        """Connect a client to a gateway of the first group."""
        self.groups[0].dial(protocol, party)
