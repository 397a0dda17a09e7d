"""The composition of a process that is a controller: the others of its group, and users in a store of its own."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from controller.member import identity as identities
from controller.member.founding import Founding
from controller.member.member import ControllerMember
from controller.raft.disk_storage import FOLDER, RaftDiskStorage
from controller.raft.persisted import Persisted, founder
from controller.raft.refusal import SafetyError
from domain.address import endpoint_text
from domain.errors import ConfigError, StoreError
from domain.message_store import MessageStore
from domain.ports import Clock, Disk, Entropy
from domain.store_event import Report
from gateway.access.administration import Administration
from gateway.access.bootstrap import open_access
from gateway.access.gate import Gate
from gateway.access.revocation import AccessRevocation
from gateway.client.answer import KeyPlaceError, TlsError
from gateway.client.security import KeyPlace, Tls
from gateway.connection.handler import Handler
from gateway.controllers.controlling import Controlling
from gateway.controllers.links import ControllerLinks
from gateway.controllers.settings import ControllerSettings
from gateway.guard.config import LimitsConfig
from gateway.guard.throttle import Throttle
from gateway.node.client_side import ClientSide
from gateway.node.composition import access_of, given_to_store
from gateway.node.config import Config
from gateway.node.nameserver.composition import OnlyVerbs
from gateway.node.protocols import Protocols
from gateway.node.storage import engine_of, settings_of
from gateway.observe.counters import CounterRegistry
from gateway.rocketmq.broker_request import Sign
from gateway.runtime.outgoing.dialer import SocketDialer
from protocols.setting import Setting

REFUSED = "this process is a controller: ask a broker, whose address is in the route of a topic"

log = logging.getLogger("headgate.controller")


@final
class GroupJoining:
    """Makes the member of this controller once its group is known, or when it was known before."""

    def __init__(
        self, disk: Disk, clock: Clock, entropy: Entropy, founding: Founding, links: ControllerLinks, controlling: Controlling
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._entropy = entropy
        self._founding = founding
        self._links = links
        self._controlling = controlling
        self._storage = RaftDiskStorage(disk)
        links.founded = self._founded
        links.greeted = self._revise
        controlling.greeted = links.told

    def start(self) -> None:
        """Take part again, or greet the others until the group is known. Raises StoreError for a state that cannot be read."""
        known = self._founding.identity
        persisted = self._storage.load()
        if known.founders:
            if self._storage.is_empty and self._founding.is_founder:
                persisted = Persisted(damage=f"{FOLDER} is empty, and {identities.NAME} says that it was not")
            self._join(persisted)
        self._links.start()

    def _founded(self, founders: frozenset[int]) -> None:
        """The log of a founder begins on the disk before anything says that the group is known."""
        persisted = Persisted()
        if self._founding.is_founder:
            persisted = founder(founders)
            self._storage.put_snapshot(persisted.snapshot)
            self._storage.sync()
        identities.store(self._disk, self._founding.identity)
        log.info("the controllers are %s, and this one is %s", sorted(founders), self._founding.identity.node)
        self._join(persisted)

    def _join(self, persisted: Persisted) -> None:
        node = self._founding.identity.node
        try:
            member = ControllerMember(node, persisted, self._storage, self._links, self._clock, self._entropy)
        except (SafetyError, ValueError) as error:
            raise StoreError(f"{FOLDER} cannot be used: {error}") from error
        if member.failure:
            log.error("this controller takes part in nothing: %s. Move the folder controller/ away, and it comes back as new",
                      member.failure)  # fmt: skip
        self._controlling.joined(member)
        member.start()

    def _revise(self) -> None:
        if self._controlling.member is not None:
            self._controlling.member.revise(self._founding.nodes, not self._founding.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParts(ClientSide):
    """A composed controller without sockets.

    store         has users and policies
    controlling   what it answers, and its member of the group
    links         the others
    joining       makes the member
    """

    store: MessageStore
    controlling: Controlling
    links: ControllerLinks
    joining: GroupJoining


def compose_controller(
    config: Config,
    ports: Mapping[str, int],
    host: str,
    disk: Disk,
    clock: Clock,
    entropy: Entropy,
    hot_bytes: int,
    protocols: Protocols,
    report: Report,
) -> ControllerParts:
    """Open the store; make the controller, the access gate and the adapters. The arguments are those of `compose`.

    Raises ConfigError and StoreError.
    """
    settings = config.part(ControllerSettings, "controller")
    if not settings.endpoints:
        raise ConfigError('controller.peers is empty: name all controllers, this one too, as in ["10.0.0.5:9878"]')
    given = given_to_store(config, protocols.store_host(host, ports), entropy)
    store = engine_of(config).open(disk, clock, settings_of(config, hot_bytes, given), report)
    founding = Founding(identities.load(disk, entropy), [endpoint_text(*each) for each in settings.endpoints])
    controlling = Controlling(founding, settings.endpoints, clock)
    links = ControllerLinks(settings.endpoints, founding, _dialer(settings), clock, entropy, _sign(settings))
    joining = GroupJoining(disk, clock, entropy, founding, links, controlling)
    table = access_of(config)
    records, access = open_access(table, config.admin, config.controlled, store.state, clock.wall_ms, config.cluster)
    verbs = OnlyVerbs(REFUSED, controlling, Administration(records))
    gate: Handler = verbs
    if access is not None:
        gate = Gate(access, verbs, None, AccessRevocation(access, clock, verbs, lambda connection: ()))
    limits = config.part(LimitsConfig, "limits")
    throttle = Throttle(limits, gate, clock) if limits.limits_messages else None
    counters = CounterRegistry(protocols.words, clock.wall_ms)
    setting = Setting(
        config.cluster, config.broker, host, ports, entropy, clock.wall_ms, access, counters.refused, is_controller=True
    )  # fmt: skip
    return ControllerParts(
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
        controlling=controlling,
        links=links,
        joining=joining,
    )


def _dialer(settings: ControllerSettings) -> SocketDialer:
    def tls() -> ssl.SSLContext | None:
        try:
            return Tls(settings.ca).context() if settings.ca else None
        except TlsError as error:
            raise ConfigError(f"controller.ca: {error}") from error

    tls()
    return SocketDialer(tls)


def _sign(settings: ControllerSettings) -> Sign | None:
    if not settings.access_key_file:
        return None
    try:
        return KeyPlace(settings.access_key_file).read().signed
    except KeyPlaceError as error:
        raise ConfigError(f"controller.access_key_file: {error}") from error
