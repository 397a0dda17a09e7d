"""The role gateway without the role store: what clients want is forwarded to the store of another process."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import final

from domain.client.channel import ChannelCommand
from domain.command import Command
from domain.errors import ConfigError, Failure
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.connection.channels import Channels
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import CommandEntry, Handler
from gateway.node.client_side import ClientPlace, ClientSide, ClientUsers, CommandPath, access_of, counters_of, make_client_side
from gateway.node.composition import CHANNELS
from gateway.node.roles.installed_roles import RoleContext
from gateway.node.roles.node_connections import NodeConnections
from gateway.node.roles.role import EndClients, OpenPort, Role
from gateway.node.roles.role_names import NAMESERVER
from gateway.node.roles.store_address import StoreAddress
from gateway.node.settings import refuse_exposed
from gateway.observe.counters import ProtocolCounters
from gateway.observe.metrics import Snapshot
from gateway.runtime.entropy import SystemEntropy

log = logging.getLogger("headgate.node")


@final
class ChannelsFirst:
    """A handler that takes channels apart here, so that each is a connection of its own for the handler behind."""

    def __init__(self, counters: ProtocolCounters, handler: Handler) -> None:
        """`counters`: of the protocol inside."""
        self._within = Channels(counters, CommandEntry(handler)).verbs[ChannelCommand]
        self._handle = handler.handle

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Pass a command on."""
        if type(command) is ChannelCommand:
            self._within(connection, command)
        else:
            self._handle(connection, command)


def compose_gateway(place: ClientPlace, controlled: bool, forwarder: Handler, records: AccessRecords) -> ClientSide:
    """Make the adapters, and what checks credentials: rights and rates are the store's concern. Raises ConfigError.

    controlled   True: the store controls access
    records      a copy of its users
    """
    config, wall_ms = place.config, place.clock.wall_ms
    access = Access(records, access_of(config), wall_ms, config.cluster) if controlled else None
    path = CommandPath(place, ChannelsFirst(place.counters.of(CHANNELS), forwarder), forwards=True)
    return make_client_side(place, ClientSide, path, ClientUsers(records, access, elsewhere=True))


@final
class GatewayRole(Role):
    """Role of a process that has no store."""

    def __init__(self, context: RoleContext) -> None:
        """Raises ConfigError when no store is named."""
        config, clock = context.config, context.clock
        self.folder = Path(config.data)
        self._config = config
        address = config.part(StoreAddress, "gateway")
        if not address.store:
            raise ConfigError(
                f"roles is {config.roles}: a gateway without a store needs one elsewhere: name it by --store HOST:PORT, "
                "or by store in the table [gateway]"
            )
        self._clock = clock
        self._health = context.health
        self._protocols = context.protocols
        names = context.parts.get(NAMESERVER)
        counters = None if names is None else names.client_side.counter_registry
        self._counters = counters or counters_of(context.protocols, clock)
        self._entropy = SystemEntropy()
        self._side: ClientSide | None = None
        self._store = NodeConnections(config, address, address.servers, clock, self._entropy, self._changed, self._counters)

    @property
    def client_side(self) -> ClientSide:
        """What serves clients."""
        assert self._side is not None
        return self._side

    def _changed(self) -> None:
        """A connection to the store is there, or is not any more, or the store has reported. While there is a connection, new
        clients are served."""
        waits, where = self._store.waits, self._store.where
        self._health.waits = f"waits for the store at {where}: {waits}" if waits else ""
        self._health.behind = tuple([f"the store at {where}: {each}" for each in self._store.reported.reasons])

    async def open(self, ports: Mapping[str, int], host: str) -> None:
        """Wait for the store, for ever. Raises ConfigError for wrong settings."""
        log.info("waits for the store at %s", self._store.where)
        self._changed()
        self._store.start()
        await self._store.reached()
        forwarders = self._store.forwarders
        facts = forwarders.facts
        assert facts is not None
        if not facts.controlled:
            refuse_exposed(self._config)
        place = ClientPlace(
            config=self._config, ports=ports, host=host, broker=facts.broker, clock=self._clock, entropy=self._entropy,
            protocols=self._protocols, counters=self._counters,
        )  # fmt: skip
        self._side = compose_gateway(place, facts.controlled, forwarders.handler, self._store.records)

    def begin(self, now_ns: int, end_clients: EndClients, open_port: OpenPort) -> None:
        """See Role. Clients have to connect again when the store is lost: `end_clients` ends their connections."""
        self._store.begin(end_clients)

    def unfinished_bytes(self) -> int:
        """Bytes of commands that the store has not answered."""
        return self._store.forwarders.unanswered_bytes()

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Add the state of the connections to the store."""
        return dataclasses.replace(snapshot, counters={**snapshot.counters, **self._store.figures()})

    def lines(self) -> list[tuple[str, str]]:
        """The store, users and the folder."""
        where = f"{self._store.where}, {self._store.secure}"
        return [("store", where), self.client_side.access_line(), ("data", f"{self.folder}: certificates")]

    async def settled(self) -> None:
        """Wait for the store's answers, for a bounded time."""
        await self._store.settled()

    def refuse_waiting(self, failure: Failure) -> None:
        """Answer long polls, and what the store has not answered in time."""
        self._store.forwarders.refuse_waiting(failure)

    async def close(self) -> None:
        """Close the connections to the store."""
        await self.settled()
        self.abandon()

    def abandon(self) -> None:
        """Stop waiting for the store."""
        self._store.close()


def make_role(context: RoleContext) -> GatewayRole:
    """The entry point `gateway`. Raises ConfigError."""
    return GatewayRole(context)
