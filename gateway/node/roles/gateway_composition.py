"""The composition of a gateway without a store: what serves clients, in front of the forwarder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from domain.channel import ChannelCommand
from domain.command import Command
from domain.ports import Clock, Entropy
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.cluster.forwarding.store_facts import StoreFacts
from gateway.connection.channels import Channels
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from gateway.guard.settings import LimitsSettings
from gateway.node.client_side import ClientSide
from gateway.node.composition import CHANNELS, access_of
from gateway.node.protocols import Protocols
from gateway.node.settings import Config
from gateway.observe.counters import CounterRegistry
from gateway.webhooks.delivery.settings import WebhookSettings
from gateway.webhooks.sender_consent import SenderConsent
from protocols.setting import Setting


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
    facts: StoreFacts,
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
    access = Access(records, access_of(config), clock.wall_ms, config.cluster) if facts.controlled else None
    sinks = config.part(WebhookSettings, "webhook").sinks
    granting = SenderConsent(clock)
    setting = Setting(
        config.cluster, facts.broker, host, ports, entropy, clock.wall_ms, access, counters.refused, grant=granting.grant,
        sinks=sinks, contexts=access.contexts if access is not None else None,
    )  # fmt: skip
    return ClientSide(
        gate=ChannelsFirst(Channels(counters.of(CHANNELS)), forwarder),
        access=access,
        access_records=records,
        adapters=protocols.adapters(config, setting),
        limits=config.part(LimitsSettings, "limits"),
        throttle=None,
        counter_registry=counters,
        uploads=setting.uploads,
        unread=setting.unread,
        granting=granting,
        forwards=True,
        users_elsewhere=True,
    )
