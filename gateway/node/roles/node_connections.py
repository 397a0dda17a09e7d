"""Connections to a node that carries out commands, with their forwarders: of a gateway to its store, or to its state node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, final

from domain.address import endpoint_text
from domain.ports import Clock, Entropy
from gateway.access.records import AccessRecords
from gateway.cluster.forwarding.forwarder import Forwarder
from gateway.cluster.forwarding.forwarders import Forwarders
from gateway.cluster.forwarding.search_report import Search, SearchReport
from gateway.cluster.forwarding.store_addresses import StoreAddresses
from gateway.cluster.forwarding.store_connection import Dialog, StoreConnection
from gateway.cluster.forwarding.store_report import ReportedStore
from gateway.cluster.forwarding.traffic import Traffic
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.connection.client_connection import ClientConnection
from gateway.link.link import RemotingLink
from gateway.link.servers import Servers
from gateway.link.wire import Dialer
from gateway.node.client_side import access_of
from gateway.node.roles.role import EndClients
from gateway.node.roles.server_access import ServerAccess
from gateway.node.roles.store_address import StoreAddress
from gateway.node.settings import Config
from gateway.observe.counters import CounterRegistry
from gateway.observe.sys_values import traffic_of
from gateway.runtime.small_file import SmallFile
from protocols.remoting.nodes.node_dialog import NodeDialog

CHECK_S: Final = 0.01
"""Time between two looks at whether the node is there, or has answered."""
UNWRITTEN_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes that may wait for the node to read them: more than all that this one takes from clients before it reads no more."""
SETTLE_S: Final = 2.0
"""Seconds that the node has for its answers when this one stops."""

_KEPT: Final = {"gateway": "store-replicas", "store.state": "state-replicas"}
"""Table of the settings -> name of the file with the replicas of its node."""


@final
class NodeConnections:
    """All connections to one node.

    forwarders   what gives commands to it
    records      a copy of its users and policies
    reported     why it takes no messages
    """

    def __init__(
        self,
        config: Config,
        address: StoreAddress,
        servers: Servers,
        clock: Clock,
        entropy: Entropy,
        changed: Callable[[], None],
        counters: CounterRegistry,
    ) -> None:
        """Raises ConfigError when the key or the authorities cannot be read.

        changed    called when a connection is there, and when it is not any more; when `reported` has changed
        counters   of the ports of this process, whose traffic the node adds up
        """
        self._access = ServerAccess(servers)
        self._end_clients: EndClients | None = None
        lives = [entropy.token(16) for _ in range(address.connections)]
        name = config.advertise or config.host

        def counted() -> Traffic:
            return Traffic(*traffic_of(counters.all()))

        self.forwarders = Forwarders(clock, config.cluster, name, lives, address.versions, self._lost, counted)
        self.records = AccessRecords(None, access_of(config).grants, self.forwarders.state)
        self._address = address
        self._addresses = StoreAddresses(servers.endpoints, SmallFile(Path(config.data) / _KEPT[servers.table]))
        self.reported = ReportedStore(
            self.forwarders.state,
            changed,
            lambda replicas: self._follow(self._addresses.take(replicas)),
            lambda doors: self._follow(self._addresses.take_doors(doors)),
        )
        endpoints = self._addresses.endpoints
        dialer, patience_s = self._means(len(endpoints))
        self._connections = [
            StoreConnection(endpoints, partial(self._dialog, each), dialer, patience_s, clock, entropy, changed)
            for each in self.forwarders.each
        ]
        self._search = SearchReport(name, lives[0].hex(), self._controllers(clock, entropy), clock, self._searched)

    def _controllers(self, clock: Clock, entropy: Entropy) -> list[RemotingLink]:
        access = ServerAccess(self._address.controller_servers)
        network = PeerNetwork(access.dialer(), access.kept_sign(clock), clock, entropy)
        return [network.link("controller", endpoint) for endpoint in access.servers.endpoints]

    def _searched(self) -> Search | None:
        """What is looked for while there is no connection."""
        waits = self.waits
        if not waits:
            return None
        return Search(", ".join(endpoint_text(*each) for each in self._addresses.endpoints), f"{self.where}: {waits}")

    def _means(self, addresses: int) -> tuple[Dialer, tuple[float, float]]:
        """What connects to the node, and its patience, with N addresses."""
        patience_s = self._address.patience_s(addresses)
        return self._access.dialer(patience_s[0], UNWRITTEN_BYTES_MAX), patience_s

    def _follow(self, changed: bool) -> None:
        """The node has reported where it and the other replicas of its group are."""
        if changed:
            endpoints = self._addresses.endpoints
            means = self._means(len(endpoints))
            for connection in self._connections:
                connection.follow(endpoints, *means)

    def begin(self, end_clients: EndClients) -> None:
        """Clients are served from now on; `end_clients` ends those that the node has dropped."""
        self._end_clients = end_clients

    def _lost(self, why: str, clients: Sequence[ClientConnection]) -> None:
        if self._end_clients is not None:
            self._end_clients(why, clients)

    def _dialog(self, forwarder: Forwarder, write: Callable[[bytes], None]) -> Dialog:
        return NodeDialog(forwarder, self._access.sign(), write)

    @property
    def where(self) -> str:
        """HOST:PORT of the node, or of the replica that was asked last."""
        return self._connections[0].where

    @property
    def waits(self) -> str:
        """Why there is no connection; "": there is one."""
        waits = [connection.waits for connection in self._connections]
        return waits[0] if all(waits) else ""

    @property
    def secure(self) -> str:
        """How the connections are protected, in words."""
        return "TLS" if self._access.servers.ca else "plain text"

    def start(self) -> None:
        """Connect, and connect again whenever a connection is lost."""
        for connection in self._connections:
            connection.start()
        if self._address.controllers:
            self._search.start()

    async def reached(self) -> None:
        """Wait without limit until the node has sent its facts, users and policies."""
        while self.forwarders.facts is None or not self.forwarders.state.ready:
            await asyncio.sleep(CHECK_S)

    async def settled(self) -> None:
        """Wait for the node's answers, at most SETTLE_S."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + SETTLE_S
        while (self.forwarders.unanswered_bytes() or self.forwarders.unanswered()) and loop.time() < end_s:
            await asyncio.sleep(CHECK_S)

    def figures(self) -> dict[str, float]:
        """For the metrics."""
        connections = self._connections
        return {
            "gateway_store_connected": sum(not each.waits for each in connections),
            "gateway_store_attempts_total": sum(each.attempts for each in connections),
            "gateway_store_losses_total": sum(each.losses for each in connections),
            "gateway_unanswered_bytes": self.forwarders.unanswered_bytes(),
        }

    def close(self) -> None:
        """Close the connections, and make no more."""
        self._search.close()
        for connection in self._connections:
            connection.close()
