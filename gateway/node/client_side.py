"""The parts of a node that serve its clients, whatever its roles are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

from domain.ports import Clock, Entropy
from domain.walk import Walks
from gateway.access.authority import Access
from gateway.access.gate import Gate
from gateway.access.records import AccessRecords
from gateway.access.revocation import AccessRevocation
from gateway.access.settings import AccessSettings, AccessTable
from gateway.audit.settings import AuditSettings
from gateway.audit.trail import AuditTrail
from gateway.connection.handler import CommandEntry, Handler
from gateway.guard.failed_logins import FailedLogins
from gateway.guard.settings import LimitsSettings
from gateway.guard.throttle import NO_LOG, Log, Throttle
from gateway.node.protocols import Adapters, Protocols
from gateway.node.settings import Config
from gateway.node.use_cases import ClientExtension, ClientWork, installed_use_cases
from gateway.observe.counters import CounterRegistry
from protocols.adapter import Adapter, Losing
from protocols.host_shares import HostShares
from protocols.setting import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSide:
    """The parts between the sockets of clients and the handler of their commands.

    access            checks credentials and rights; None: access is not controlled
    access_records    users and policies; None: this node does not keep them
    throttle          limits the rates of clients; None: no rate is limited at the start
    log               the bytes that the log accepts, and who writes, for a throttle
    uploads           bytes of unfinished requests
    unread            bytes of answers that clients have not read
    failed_logins     slows who guesses; None: access is not controlled
    extensions        the parts of installed use cases
    entry             has what takes the commands of clients first, also those that come inside other commands
    forwards          True: another node carries out the commands, and limits rates of messages
    users_elsewhere   True: another node keeps the users, and this one a copy of them
    """

    access: Access | None
    access_records: AccessRecords | None
    adapters: Adapters
    limits: LimitsSettings
    throttle: Throttle | None
    log: Log
    counter_registry: CounterRegistry
    uploads: HostShares
    unread: HostShares
    entry: CommandEntry
    failed_logins: FailedLogins | None = None
    extensions: Sequence[ClientExtension] = ()
    forwards: bool = False
    users_elsewhere: bool = False

    @property
    def gate(self) -> Handler:
        """The handler that takes the commands of clients."""
        return self.entry.handler

    def works(self) -> list[ClientWork]:
        """The work of the extensions in this process, new and not begun. Raises ConfigError."""
        works = [each.work(self.gate) for each in self.extensions]
        return [work for work in works if work is not None]

    def access_line(self) -> tuple[str, str]:
        """Who is let in, for the table that is printed at the start."""
        access = self.access
        return "access", "everybody who reaches a port" if access is None else f"controlled, {len(access.records.users)} users"

    def lost(self) -> dict[str, int]:
        """Reason -> number of messages that adapters have dropped instead of delivering them."""
        lost: dict[str, int] = {}
        for adapter in self.adapters.streams.values():
            for reason, count in adapter.lost.items() if isinstance(adapter, Losing) else ():
                lost[reason] = lost.get(reason, 0) + count
        return lost


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlace:
    """The environment that every side of clients is made from.

    host           host name or address that routes and offset ids carry
    counters       counters of all protocols
    is_controller  as in `Setting`, and so is `is_replica`
    """

    config: Config
    ports: Mapping[str, int]
    host: str
    broker: str
    clock: Clock
    entropy: Entropy
    protocols: Protocols
    counters: CounterRegistry
    is_controller: bool = False
    is_replica: bool = False


@dataclass(frozen=True, slots=True)
class ClientUsers:
    """Users and policies, and the authority over them.

    access      None: access is not controlled
    elsewhere   True: another node keeps them, and this one a copy of them
    """

    records: AccessRecords
    access: Access | None
    elsewhere: bool = False


@final
class CommandPath:
    """The way of a client's commands.

    limits    the table `[limits]`
    throttle  limits the rates of clients; None: no rate is limited at the start
    log       the bytes that the log accepts, and who writes, for a throttle
    entry     where they enter, also for commands that come inside other commands
    forwards  True: another node carries them out, and limits rates of messages
    """

    def __init__(
        self,
        place: ClientPlace,
        gate: Handler,
        first: Callable[[Handler], Handler] | None = None,
        forwards: bool = False,
        log: Log = NO_LOG,
    ) -> None:
        """Raises ConfigError for limits that are not valid.

        gate    the access gate, or what is behind it where access is not controlled
        first   throttle or gate -> what takes them first; None: these do
        """
        self.limits = place.config.part(LimitsSettings, "limits")
        self.log = log
        limited = self.limits.limits_messages and not forwards
        self.throttle = Throttle(self.limits, gate, place.clock, log) if limited else None
        handler = self.throttle or gate
        self.entry = CommandEntry(handler if first is None else first(handler))
        self.forwards = forwards


Side = TypeVar("Side", bound=ClientSide)


def counters_of(protocols: Protocols, clock: Clock) -> CounterRegistry:
    """New counters of all protocols, for one side."""
    return CounterRegistry(protocols.words, clock.wall_ms)


def access_of(config: Config) -> AccessSettings:
    """The table `[access]` with its policies, rules and bans parsed. Raises ConfigError."""
    return AccessSettings.of(config.part(AccessTable, "access"))


def trail_of(place: ClientPlace) -> AuditTrail:
    """What writes to the audit log. Raises ConfigError for settings that are not valid."""
    return AuditTrail(place.clock, place.config.part(AuditSettings, "audit").interval_s)


def gate_before(verbs: Handler, access: Access | None, clock: Clock) -> Handler:
    """The access gate before verbs that need neither a log nor sessions; `verbs` itself where access is not controlled."""
    if access is None:
        return verbs
    return Gate(access, verbs, None, AccessRevocation(access, Walks(clock), verbs, lambda connection: ()))


def make_client_side(
    place: ClientPlace,
    kind: Callable[..., Side],
    path: CommandPath,
    users: ClientUsers,
    streams: Callable[[Config, Setting], Mapping[str, Adapter]] | None = None,
) -> Side:
    """The setting and the adapters before `path`, as a `kind`. Raises ConfigError for settings that are not valid.

    `streams`: adapters in place of those of the same name.
    """
    config, clock, access = place.config, place.clock, users.access
    logins = None if access is None else FailedLogins(path.limits, clock.monotonic_ns)
    if access is not None:
        access.logins, access.audit = logins, trail_of(place)
    extensions = [each.client(config, clock) for each in installed_use_cases().values() if each.client is not None]
    setting = Setting(
        config.cluster, place.broker, place.host, place.ports, place.entropy, clock.wall_ms, access, place.counters.refused,
        is_controller=place.is_controller, is_replica=place.is_replica,
        contexts=access.contexts if access is not None else None,
    )  # fmt: skip
    for extension in extensions:
        setting = extension.extended(setting)
    adapters = place.protocols.adapters(config, setting)
    if streams is not None:
        adapters = replace(adapters, streams={**adapters.streams, **streams(config, setting)})
    return kind(
        access=access,
        access_records=users.records,
        adapters=adapters,
        limits=path.limits,
        throttle=path.throttle,
        log=path.log,
        counter_registry=place.counters,
        uploads=setting.uploads,
        unread=setting.unread,
        failed_logins=logins,
        extensions=extensions,
        entry=path.entry,
        forwards=path.forwards,
        users_elsewhere=users.elsewhere,
    )
