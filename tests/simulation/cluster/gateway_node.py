"""A gateway of a simulated cluster: the real composition of a gateway without a store, before several replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from domain.errors import GatewayError
from domain.limits import MILLISECOND_NS
from gateway.access.records import AccessRecords
from gateway.connection.client_connection import ClientConnection
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.forwarding.forwarders import Forwarders
from gateway.node.client_side import ClientSide
from gateway.node.composition import access_of
from gateway.node.gateway_composition import compose_gateway
from gateway.node.protocols import installed
from gateway.observe.counters import CounterRegistry
from gateway.runtime.datagrams.pump import DatagramPump
from protocols.remoting.forwarding.stream import VERSIONS
from protocols.remoting.node_dialog import NodeDialog
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.wires import ClientWire
from tests.simulation.lifetime import Traced
from tests.simulation.network import DatagramLink, Link, Party
from tests.simulation.world import PORTS

if TYPE_CHECKING:
    from gateway.forwarding.forwarder import Forwarder
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.store_group import SimGroup

ANSWER_NS, SILENCE_NS = 1_000 * MILLISECOND_NS, 2_000 * MILLISECOND_NS
"""gateway.node.remote.store_address.StoreAddress.patience_s of a store with several addresses."""
PAUSE_MS, PAUSE_MAX_MS = 50, 200
PINGS = 4


class StoreLink:
    """The connection of a gateway to whichever replica leads, as `gateway.runtime.outgoing.store_connection`."""

    def __init__(self, gateway: GatewayNode, forwarder: Forwarder, endpoints: Sequence[tuple[str, int]]) -> None:
        self._gateway = gateway
        self._clock = gateway.clock
        self._dialer = gateway.cluster.net.dialer(gateway)
        self._forwarder = forwarder
        self._endpoints = endpoints
        self._at = 0
        self._failures = 0
        self._try()

    def _try(self) -> None:
        _StoreSocket(self, self._forwarder, self._clock).dial(self._dialer, *self._endpoints[self._at])

    def ended(self, greeted: bool) -> None:
        """A connection has ended, or could not be made."""
        self._failures = 0 if greeted else self._failures + 1
        self._at = (self._at + 1) % len(self._endpoints)
        rounds, rest = divmod(self._failures, len(self._endpoints))
        if rest:
            self._clock.call_soon(self._try)
            return
        pause_ms = min(PAUSE_MAX_MS, PAUSE_MS * 2**rounds) * (0.5 + self._gateway.chance.random())
        self._clock.call_at(self._clock.monotonic_ns() + int(pause_ms * MILLISECOND_NS), self._try)


class _StoreSocket:
    """One connection: `gateway.link.wire.WireUser`."""

    def __init__(self, link: StoreLink, forwarder: Forwarder, clock: Any) -> None:
        self._link = link
        self._clock = clock
        self._wire: ClientWire | None = None
        self._dialog = NodeDialog(forwarder, None, self._write)
        self._quiet = 0
        self._heard = self._over = False

    def dial(self, dialer: Any, host: str, port: int) -> None:
        """Connect, within the time for an answer."""
        self._wire = dialer.dial(host, port, self)
        self._clock.call_at(self._clock.monotonic_ns() + ANSWER_NS, self._unanswered)

    def _unanswered(self) -> None:
        if not self._dialog.greeted:
            self.ended("the greeting is not answered")

    def _write(self, data: bytes) -> None:
        if self._wire is not None and not self._over:
            self._wire.write(data)

    def opened(self) -> None:
        """WireUser.opened."""
        if not self._over:
            self._dialog.open()

    def received(self, data: bytes) -> None:
        """WireUser.received."""
        if self._over:
            return
        self._heard = True
        before = self._dialog.greeted
        try:
            self._dialog.receive(data)
        except GatewayError as error:
            self.ended(str(error))
            return
        if self._dialog.greeted and not before:
            self._later()

    def _later(self) -> None:
        self._clock.call_at(self._clock.monotonic_ns() + SILENCE_NS // PINGS, self._look)

    def _look(self) -> None:
        if self._over:
            return
        self._quiet = 0 if self._heard else self._quiet + 1
        self._heard = False
        if self._quiet >= PINGS:
            self.ended("it says nothing")
            return
        if self._quiet:
            self._dialog.ping()
        self._later()

    def ended(self, reason: str) -> None:
        """WireUser.ended."""
        if self._over:
            return
        self._over = True
        if self._wire is not None:
            self._wire.close()
        self._dialog.end()
        self._link.ended(self._dialog.greeted)


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


class GatewayNode(Machine):
    """One gateway before a store group.

    side   None until the store has told what it is
    """

    side: ClientSide | None = None
    context: ConnectionContext
    links: list[Link | DatagramLink]
    forwarders: Forwarders
    _port = 20_000

    def __init__(self, cluster: Cluster, group: SimGroup, name: str, host: str) -> None:
        super().__init__(cluster, name, host)
        self.group = group

    def began(self) -> None:
        """Machine.began."""
        cluster, clock, entropy = self.cluster, self.clock, self.entropy
        self.links = []
        lives = [entropy.token(16) for _ in range(cluster.connections)]
        self.forwarders = Forwarders(clock, "DefaultCluster", self.name, lives, VERSIONS)
        self.records = AccessRecords(None, access_of(self.group.config).grants, self.forwarders.state)
        self.forwarders.on_store_lost(self._store_lost)
        for each in self.forwarders.each:
            StoreLink(self, each, self.group.endpoints)
        self._reach()

    def _reach(self) -> None:
        facts = self.forwarders.facts
        if facts is None or not self.forwarders.ready:
            self.clock.call_at(self.clock.monotonic_ns() + 10 * MILLISECOND_NS, self._reach)
            return
        cluster, clock = self.cluster, self.clock
        counters = CounterRegistry(installed().words, clock.wall_ms)
        side = self.side = compose_gateway(
            self.group.config, PORTS, self.host, facts, self.forwarders.handler, self.records, clock, self.entropy, installed(),
            counters,
        )  # fmt: skip
        self.context = ConnectionContext(
            Traced(cluster.clock, cluster.ledger, side.gate), clock, counters, 10_000,
            unfinished_bytes=self.forwarders.unanswered_bytes, unread=side.unread,
        )  # fmt: skip
        self.note("serves clients")

    def gone(self) -> None:
        """Machine.gone."""
        self.side = None
        links, self.links = self.links, []
        for link in links:
            link.vanish()

    def serve(self, protocol: str, party: Party) -> None:
        """A client connects."""
        side, clock, chance = self.side, self.clock, self.chance
        assert side is not None
        self._port += 1
        self.links = [link for link in self.links if link.open]
        if protocol in side.adapters.datagrams:
            datagrams = DatagramLink(clock, chance, party, self._port)
            endpoint = side.adapters.datagrams[protocol].bind(0)
            loop = cast(asyncio.AbstractEventLoop, datagrams)
            DatagramPump(self.context, [cast(Any, datagrams)], endpoint, protocol, loop).open()
            self.links.append(datagrams)
            party.connected(datagrams)
            return
        link = ClusterLink(
            clock, chance, Pump(self.context, protocol, side.adapters.streams[protocol].connect), party, self._port
        )  # fmt: skip
        self.links.append(link)
        clock.call_soon(link.start)

    def reset_some(self, share: float) -> None:
        """Break links of clients."""
        for link in list(self.links):
            if self.chance.random() < share and not self.clock.paused:
                link.reset()

    def _store_lost(self, why: str, clients: Sequence[ClientConnection]) -> None:
        self.note(f"clients begin again: {why}")
        lost = {client for client in clients if not client.shared}
        for link in self.links:
            if isinstance(link, Link) and link.client in lost:
                lost.discard(link.client)
                link.reset()
        for channel in lost:
            channel.driver.close()
