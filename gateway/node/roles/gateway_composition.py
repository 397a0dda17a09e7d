"""The composition of a gateway without a store: what serves clients, in front of the forwarder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from domain.channel import ChannelCommand
from domain.command import Command
from domain.ports import Clock, Entropy
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.connection.channels import Channels
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from gateway.node.client_side import ClientPlace, ClientSide, ClientUsers, CommandPath, access_of, make_client_side
from gateway.node.composition import CHANNELS
from gateway.node.protocols import Protocols
from gateway.node.settings import Config
from gateway.observe.counters import CounterRegistry
from protocols.remoting.nodes.forwarding.greeting import Welcome


@final
class ChannelsFirst:
    """A handler that takes channels apart here, so that each is a connection of its own for the handler behind."""

    def __init__(self, channels: Channels, handler: Handler) -> None:
        channels.handler = handler
        self._within = channels.verbs()[ChannelCommand]
        self._handle = handler.handle

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Pass a command on."""
        if type(command) is ChannelCommand:
            self._within(connection, command)
        else:
            self._handle(connection, command)


def compose_gateway(
    config: Config,
    ports: Mapping[str, int],
    host: str,
    facts: Welcome,
    forwarder: Handler,
    records: AccessRecords,
    clock: Clock,
    entropy: Entropy,
    protocols: Protocols,
    counters: CounterRegistry,
) -> ClientSide:
    """Make the adapters, and what checks credentials: rights and rates are the store's concern. Raises ConfigError.

    ports     listener -> port in use
    host      host name or address that routes carry
    facts     what the store has said of itself
    records   a copy of its users
    counters  of this process
    """
    place = ClientPlace(
        config=config, ports=ports, host=host, broker=facts.broker, clock=clock, entropy=entropy, protocols=protocols
    )
    access = Access(records, access_of(config), clock.wall_ms, config.cluster) if facts.controlled else None
    path = CommandPath(ChannelsFirst(Channels(counters.of(CHANNELS)), forwarder), forwards=True)
    return make_client_side(place, ClientSide, path, ClientUsers(records, access, elsewhere=True), counters)
