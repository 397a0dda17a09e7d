"""One store group of a cluster: its replicas, the gateways before it, and what must be true of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domain.store.message_store import MessageStore
from gateway.node.settings import Config
from tests.simulation.cluster.checkers import Checkers
from tests.simulation.cluster.gateway_node import GatewayNode
from tests.simulation.cluster.store_node import REMOTING, StoreNode
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.links import Party

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

AGAIN_MS = 50


class SimGroup:
    """A store group.

    name       of the group
    config     of its replicas and gateways
    endpoints  (host, port) of its replicas, for gateways
    strength   replicas that it has begun with
    learned    True, in every fourth run: gateways are told the address of the first leader alone, and learn the others
    """

    def __init__(self, cluster: Cluster, number: int, stores: int, gateways: int) -> None:
        """`number`: 1 for the first group of the cluster."""
        self.cluster = cluster
        self.name = f"broker-{'ab'[number - 1]}"
        self.config = Config(broker=self.name)
        hosts = [f"10.0.{10 * number - 9}.{at}" for at in range(1, stores + 1)]
        self.endpoints = [(host, REMOTING) for host in hosts]
        self.strength = stores
        self._number = number
        self.learned = cluster.seed % 4 == 3
        self.checkers = Checkers(cluster, self)
        self._label = label = "" if number == 1 else f"{self.name} "
        self.stores = [StoreNode(cluster, self, f"{label}store {at}", at, host) for at, host in enumerate(hosts, 1)]
        self.gateways = [
            GatewayNode(cluster, self, f"{label}gateway {at}", f"10.0.{10 * number - 7}.{at}") for at in range(1, gateways + 1)
        ]
        self._next = 0

    @property
    def clock(self) -> VirtualClock:
        """The clock of the clients: true time."""
        return self.cluster.clock

    def add_learner(self, remote: str = "") -> StoreNode:
        """A further replica, whose address gateways learn from the store. It is started. `remote`: name of its place."""
        at = len(self.stores) + 1
        node = StoreNode(self.cluster, self, f"{self._label}store {at}", at, f"10.0.{10 * self._number - 9}.{at}")
        node.learner, node.remote = True, remote
        self.stores.append(node)
        node.start()
        return node

    def leader(self) -> StoreNode | None:
        """The replica that serves clients, in the newest epoch."""
        serving = [each for each in self.stores if each.parts is not None and each.store is not None]
        return max(serving, key=lambda each: each.store.replica.epoch, default=None)  # type: ignore[union-attr]

    @property
    def served(self) -> MessageStore:
        """The store of the leader, which there is."""
        leader = self.leader()
        assert leader is not None
        assert leader.store is not None
        return leader.store.store

    def is_whole(self) -> bool:
        """True when all replicas are in the SyncStateSet, and one of them serves."""
        group = self.checkers.group()
        return group is not None and len(group.members) == len(self.stores) and self.leader() is not None

    def dial(self, protocol: str, party: Party) -> None:
        """Connect a client to a gateway that serves, by turns."""
        for _ in self.gateways:
            self._next = (self._next + 1) % len(self.gateways)
            gateway = self.gateways[self._next]
            if gateway.running and gateway.side is not None:
                gateway.serve(protocol, party)
                return
        self.cluster.after(AGAIN_MS, party.lost)
