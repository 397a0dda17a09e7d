"""The composition of a process that is a name server alone: routes in memory, keys and users in a store of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from domain.command import Command, Disconnected
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.message_store import MessageStore
from domain.ports import Clock, Disk, Entropy
from domain.store_event import Report
from gateway.access.administration import Administration
from gateway.access.bootstrap import open_access
from gateway.access.gate import Gate
from gateway.access.revocation import AccessRevocation
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from gateway.guard.config import LimitsConfig
from gateway.guard.throttle import Throttle
from gateway.node.client_side import ClientSide
from gateway.node.composition import access_of, given_to_store
from gateway.node.config import Config
from gateway.node.protocols import Protocols
from gateway.node.storage import engine_of, settings_of
from gateway.observe.counters import CounterRegistry
from gateway.usecase.handler import UseCase, Verb
from gateway.usecase.long_questions import LongQuestions
from gateway.usecase.tools.nameserver import NameServer
from nameserver.config import NameserverConfig
from nameserver.settings import StoredSettings
from nameserver.table import RouteTable
from protocols.setting import Setting

REFUSED = "this process is a name server alone: ask a broker, whose address is in the route of a topic"


@final
class OnlyVerbs:
    """The commands that a process without a store for messages carries out. All others are refused with `text`."""

    def __init__(self, text: str, *use_cases: UseCase) -> None:
        self._text = text
        self._verbs: dict[type[Command], Verb] = {Disconnected: _disconnected}
        for use_case in use_cases:
            self._verbs.update(use_case.verbs())

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Carry out one command; its answer goes to `connection`, now or later."""
        verb = self._verbs.get(type(command))
        if verb is not None:
            verb(connection, command)
            return
        connection.answer(Refused(getattr(command, "ticket", None), Failure(ErrorCode.NOT_SUPPORTED, self._text)))


def _disconnected(connection: ClientConnection, command: Disconnected) -> None:
    connection.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class NameserverParts(ClientSide):
    """A composed name server without sockets.

    store    has its keys, and users and policies
    routes   the brokers that have registered
    """

    store: MessageStore
    routes: RouteTable


def compose_nameserver(
    config: Config,
    ports: Mapping[str, int],
    host: str,
    disk: Disk,
    clock: Clock,
    entropy: Entropy,
    hot_bytes: int,
    protocols: Protocols,
    report: Report,
) -> NameserverParts:
    """Open the store; make the name server, the access gate and the adapters. The arguments are those of `compose`.

    Raises ConfigError and StoreError.
    """
    given = given_to_store(config, protocols.store_host(host, ports), entropy)
    store = engine_of(config).open(disk, clock, settings_of(config, hot_bytes, given), report)
    routes = RouteTable(config.part(NameserverConfig, "nameserver").routes_max)
    table = access_of(config)
    records, access = open_access(table, config.admin, config.controlled, store.state, clock.wall_ms, config.cluster)
    serving = NameServer(routes, StoredSettings(store.state), clock, LongQuestions(clock))
    verbs = OnlyVerbs(REFUSED, serving, Administration(records))
    gate: Handler = verbs
    if access is not None:
        gate = Gate(access, verbs, None, AccessRevocation(access, clock, verbs, lambda connection: ()))
    limits = config.part(LimitsConfig, "limits")
    throttle = Throttle(limits, gate, clock) if limits.limits_messages else None
    counters = CounterRegistry(protocols.words, clock.wall_ms)
    setting = Setting(config.cluster, config.broker, host, ports, entropy, clock.wall_ms, access, counters.refused)
    return NameserverParts(
        gate=throttle or gate,
        access=access,
        access_records=records,
        adapters=protocols.adapters(config, setting),
        limits=limits,
        throttle=throttle,
        counter_registry=counters,
        uploads=setting.uploads,
        unread=setting.unread,
        store=store,
        routes=routes,
    )
