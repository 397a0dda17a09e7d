"""A gateway of a simulated cluster: the real composition of a gateway without a store, before several replicas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from domain.limits import MILLISECOND_NS, SECOND_NS
from gateway.access.records import AccessRecords
from gateway.cluster.forwarding.forwarders import Forwarders
from gateway.cluster.forwarding.store_addresses import StoreAddresses
from gateway.cluster.forwarding.store_connection import StoreConnection
from gateway.cluster.forwarding.store_report import ReportedStore
from gateway.cluster.forwarding.traffic import Traffic
from gateway.connection.client_connection import ClientConnection
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.node.client_side import ClientPlace, ClientSide, access_of, counters_of
from gateway.node.protocols import installed
from gateway.node.roles.gateway import compose_gateway
from protocols.remoting.nodes.forwarding.stream import VERSIONS
from protocols.remoting.nodes.node_dialog import NodeDialog
from tests.simulation.cluster.client_links import ClientLinks
from tests.simulation.cluster.machine import Machine
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.links import Party, end_clients
from tests.simulation.ledger import Traced
from tests.simulation.world import PORTS

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.store_group import SimGroup

REMOTING = 10911
PATIENCE_S = (1.0, 2.0)
"""gateway.node.roles.store_address.StoreAddress.patience_s of a store with several addresses."""


def _unheard() -> None:
    """Whether a gateway waits for its store is asked of its forwarders here."""


class DiskFile:
    """`AddressFile` on the disk of a machine."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def read(self) -> bytes:
        """AddressFile.read."""
        return self._disk.read_all("store-replicas") or b""

    def replace(self, data: bytes) -> None:
        """AddressFile.replace."""
        self._disk.replace("store-replicas", data)


class GatewayNode(Machine):
    """One gateway before a store group.

    side   None until the store has told what it is
    """

    side: ClientSide | None = None
    context: ConnectionContext
    links: ClientLinks
    forwarders: Forwarders
    _seeds: Sequence[tuple[str, int]] = ()

    def __init__(self, cluster: Cluster, group: SimGroup, name: str, host: str) -> None:
        super().__init__(cluster, name, host)
        self.group = group

    def began(self) -> None:
        """Machine.began."""
        self.links = ClientLinks(self)
        leader = self.group.leader()
        if not self.group.learned:
            self._seeds = self.group.endpoints
        elif not self._seeds and leader is not None:
            self._seeds = [(leader.host, REMOTING)]
        if self._seeds:
            self._connect()
        else:
            self.clock.call_at(self.clock.monotonic_ns() + 10 * MILLISECOND_NS, self.began)

    def _connect(self) -> None:
        cluster, clock, entropy = self.cluster, self.clock, self.entropy
        lives = [entropy.token(16) for _ in range(cluster.connections)]
        self.forwarders = Forwarders(clock, "DefaultCluster", self.name, lives, VERSIONS, self._store_lost, Traffic)
        self.records = AccessRecords(None, access_of(self.group.config).grants, self.forwarders.state)
        dialer = cluster.net.dialer(self, int(PATIENCE_S[0] * SECOND_NS))
        addresses = StoreAddresses(self._seeds, DiskFile(self.disk))
        connections = [
            StoreConnection(addresses.endpoints, partial(NodeDialog, each, None), dialer, PATIENCE_S, clock, entropy, _unheard)
            for each in self.forwarders.each
        ]

        def follow(changed: bool) -> None:
            for each in connections if changed else ():
                each.follow(addresses.endpoints, dialer, PATIENCE_S)

        ReportedStore(
            self.forwarders.state,
            _unheard,
            lambda replicas: follow(addresses.take(replicas)),
            lambda doors: follow(addresses.take_doors(doors)),
        )
        for each in connections:
            each.start()
        self._reach()

    def _reach(self) -> None:
        facts = self.forwarders.facts
        if facts is None or not self.forwarders.state.ready:
            self.clock.call_at(self.clock.monotonic_ns() + 10 * MILLISECOND_NS, self._reach)
            return
        cluster, clock = self.cluster, self.clock
        counters = counters_of(installed(), clock)
        config = self.group.config
        place = ClientPlace(
            config=config, ports=PORTS, host=self.host, broker=facts.broker, clock=clock, entropy=self.entropy,
            protocols=installed(), counters=counters,
        )  # fmt: skip
        side = self.side = compose_gateway(place, facts.controlled, self.forwarders.handler, self.records)
        self.context = ConnectionContext(
            Traced(cluster.clock, cluster.ledger, side.gate), clock, counters, ConnectionLimits(10_000),
            unfinished_bytes=self.forwarders.unanswered_bytes, unread=side.unread,
        )  # fmt: skip
        self.note("serves clients")

    def gone(self) -> None:
        """Machine.gone."""
        self.side = None
        self.links.vanish()

    def serve(self, protocol: str, party: Party) -> None:
        """A client connects."""
        assert self.side is not None
        self.links.serve(self.side, self.context, protocol, party)

    def reset_some(self, share: float) -> None:
        """Break links of clients."""
        for link in list(self.links.open):
            if self.chance.random() < share and not self.clock.paused:
                link.reset()

    def _store_lost(self, why: str, clients: Sequence[ClientConnection]) -> None:
        self.note(f"clients begin again: {why}")
        end_clients(self.links.open, clients)
