"""The composition: with the node, the one place that names concrete classes.

`compose` builds everything between the ports (disk, clock, entropy) and the sockets; a simulation uses it as the node does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Final

from domain.address import host_bytes
from domain.errors import ConfigError
from domain.message_store import MessageStore
from domain.ports import Clock, Disk, Entropy
from domain.storage_engine import GIVEN_FIELDS
from gateway.access.administration import Administration
from gateway.access.authority import Access
from gateway.access.bootstrap import open_access
from gateway.access.config import read as read_access
from gateway.access.gate import Gate
from gateway.access.records import AccessRecords
from gateway.access.revocation import AccessRevocation
from gateway.connection.channels import Channels
from gateway.connection.handler import Handler
from gateway.guard.config import LimitsConfig
from gateway.guard.proxies import Proxies
from gateway.guard.throttle import Throttle
from gateway.node.config import Config, nearest
from gateway.node.storage import DEFAULT_ENGINE, ENGINE, engine_named, settings_of
from gateway.observe.counters import CounterRegistry
from gateway.usecase.catalog.modes import Modes
from gateway.usecase.catalog.policy import PERMISSIONS, SHARES, STRATEGIES, NodePolicy
from gateway.usecase.catalog.topic_change import TopicChanging
from gateway.usecase.consume.watch import Watches
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.lite.use_cases import lite_use_cases
from gateway.usecase.publish.latest import LatestValues
from gateway.usecase.publish.recall import Recalling
from gateway.usecase.publish.transaction import TransactionEnding, TransactionResuming
from gateway.usecase.sessions.sessions import Sessions
from gateway.usecase.tools.inspect import Inspecting
from gateway.usecase.tools.nameserver import NameServer
from gateway.usecase.tools.query import Querying
from nameserver.settings import StoredSettings
from nameserver.table import RouteTable
from protocols.adapter import Adapter, DatagramAdapter, Setting
from protocols.coap.config import CoapConfig
from protocols.http.config import read as read_http
from protocols.mqtt.config import read as read_mqtt
from protocols.registry import MQTT, WEBSOCKET
from protocols.remoting.config import read as read_remoting
from protocols.websocket.adapter import WebSocketAdapter
from protocols.websocket.config import read as read_websocket

PROTOCOLS: Final = "gateway.protocols"
APPLICATIONS: Final = "gateway.applications"
HTTP2: Final = "http2"

TABLES: Final[Mapping[str, str]] = {"http1": "http"}
"""Protocols that share another one's table of the configuration."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A composed node without sockets. `missing` names the protocols that could not be loaded, and why.

    access    the authority, None where access is not controlled; throttle: None where no rate is limited
    gate      who takes commands: the throttle, the gate of access, or the dispatcher itself where there is neither
    """

    store: MessageStore
    handler: Dispatcher
    access: Access | None
    gate: Handler
    streams: Mapping[str, Adapter]
    datagrams: Mapping[str, DatagramAdapter]
    missing: Mapping[str, str]
    watches: Watches
    sessions: Sessions
    limits: LimitsConfig
    throttle: Throttle | None
    access_records: AccessRecords
    counter_registry: CounterRegistry


def part_names() -> list[str]:
    """Names of the configuration tables that parts may have."""
    names = {point.name for group in (PROTOCOLS, APPLICATIONS) for point in entry_points(group=group)}
    return sorted({TABLES.get(name, name) for name in names} | {"store", "policy", "access", "limits", "proxy", "websocket"})


def compose(
    config: Config, ports: Mapping[str, int], host: str, disk: Disk, clock: Clock, entropy: Entropy, hot_bytes: int
) -> Parts:
    """Open the store and put use cases and protocols on top of it.

    `ports`: those really in use; `host`: what routes carry; `hot_bytes`: StoreConfig's default. Raises ConfigError, StoreError.
    """
    store = _open_store(config, disk, clock, host_bytes(host, ports.get("remoting", 0)), hot_bytes)
    policy = _policy(config)
    handler = Dispatcher(
        store=store,
        clock=clock,
        entropy=entropy,
        cluster=config.cluster,
        broker=config.broker,
        policy=policy,
    )
    handler.counters.follow("parked", lambda: store.timed()[0])
    handler.counters.follow("due", lambda: store.timed()[1])
    routes = RouteTable()
    handler.add(
        NameServer(config.cluster, config.broker, store.metadata, routes, StoredSettings(store.state), clock, policy),
        Modes(handler.groups, store.metadata, routes, store.state),
        Inspecting(store.log, store.outlook, store.metadata, handler.topics, handler.rights, clock, _figures(store, handler)),
        Querying(store.log, store.positions, store.metadata, handler.registry),
        TopicChanging(store.metadata, handler.topics),
        Recalling(store.timers, handler.topics, config.broker, clock),
        deciding := TransactionEnding(store.transactions, handler.registry),
        watches := Watches(clock),
        sessions := Sessions(
            store,
            clock,
            handler.sending,
            handler.receiving,
            handler.groups,
            handler.dead_letters,
            handler.registry,
            policy,
        ),
        LatestValues(store.state, clock),
        TransactionResuming(store.log, handler.topics),
        *lite_use_cases(store, handler, clock, policy),
        channels := Channels((counters := CounterRegistry()).of(MQTT)),
    )
    store.log.listen(watches)
    store.transactions.listen(deciding)
    store.log.listen(sessions)
    table = config.table("access")
    access_records, access = open_access(table, config.admin, config.controlled, store.state, clock.wall_ms, config.cluster)
    handler.add(Administration(access_records))
    gate, limits, throttle = _gate(config, handler, access, sessions, store, clock)
    channels.handler = entry = throttle or gate
    base = Setting(config.cluster, config.broker, host, ports, entropy, clock.wall_ms, {}, access, counters.refused)
    adapters = _adapters(config, base)
    return Parts(store, handler, access, entry, *adapters, watches, sessions, limits, throttle, access_records, counters)


def _figures(store: MessageStore, handler: Dispatcher) -> Callable[[], dict[str, float]]:
    return lambda: {**store.figures(), **handler.counters.figures()}


def _open_store(config: Config, disk: Disk, clock: Clock, store_host: bytes, hot_bytes: int) -> MessageStore:
    engine = engine_named(config.table("store").get(ENGINE, DEFAULT_ENGINE))
    given = {"broker": config.broker, "store_host": store_host, "durability": config.durability}
    table = _table(engine.settings, config, "store", GIVEN_FIELDS)
    return engine.open(disk, clock, settings_of(engine, table, given, hot_bytes))


def _policy(config: Config) -> NodePolicy:
    """The table `[policy]`. Raises ConfigError."""
    policy = NodePolicy(**_table(NodePolicy, config, "policy", ()))
    if policy.share_strategy not in STRATEGIES:
        raise ConfigError(f"policy.share_strategy is {policy.share_strategy!r}: one of {', '.join(STRATEGIES)} is wanted")
    if policy.permission not in PERMISSIONS:
        raise ConfigError(f"policy.permission is {policy.permission}: one of 2, 4, 6 is wanted")
    percent = policy.priority_again_first_percent
    if not 0 <= percent <= SHARES:
        raise ConfigError(f"policy.priority_again_first_percent is {percent}: 0 to {SHARES} is wanted")
    return policy


def _gate(
    config: Config,
    handler: Dispatcher,
    access: Access | None,
    sessions: Sessions,
    store: MessageStore,
    clock: Clock,
) -> tuple[Handler, LimitsConfig, Throttle | None]:
    """What stands before the dispatcher: nothing, where nothing is controlled and nothing limited."""
    gate: Handler = handler
    if access is not None:
        gate = Gate(
            access,
            handler,
            store.transactions,
            AccessRevocation(access, clock, handler, sessions.subscriptions_of, handler.reviews),
        )
    limits = limits_of(config)
    return gate, limits, Throttle(limits, gate, clock) if limits.limits_messages else None


def limits_of(config: Config) -> LimitsConfig:
    """The table `[limits]`. Raises ConfigError."""
    return LimitsConfig(**_table(LimitsConfig, config, "limits", ()))


def defaults(config: Config, hot_bytes: int) -> list[tuple[str, str, str]]:
    """(setting, value, "default") of the parts' settings that nothing has been said about. Raises ConfigError."""
    rows: list[tuple[str, str, str]] = []
    _policy(config)
    engine = config.table("store").get(ENGINE, DEFAULT_ENGINE)
    stored = engine_named(engine).settings
    if ENGINE not in config.table("store"):
        rows.append((f"store.{ENGINE}", DEFAULT_ENGINE, "default"))
    for name, kind in (("store", stored), ("policy", NodePolicy), ("limits", LimitsConfig)):
        apart = GIVEN_FIELDS if name == "store" else ()
        given = kind(**_table(kind, config, name, apart))
        for field in dataclasses.fields(kind):
            if field.name not in apart and field.name not in config.table(name):
                value = hot_bytes if field.name == "hot_bytes" else getattr(given, field.name)
                rows.append((f"{name}.{field.name}", str(value).lower() if isinstance(value, bool) else str(value), "default"))
    proxies = Proxies(config.table("proxy"))
    if "required" not in config.table("proxy"):
        rows.append(("proxy.required", str(proxies.required).lower(), "default"))
    if not proxies:
        rows.append(("proxy.peers", "[]", "default"))
    read_access(config.table("access"))
    return [*rows, *_protocol_defaults(config)]


def _protocol_defaults(config: Config) -> list[tuple[str, str, str]]:
    """The same of the protocols' tables."""
    rows: list[tuple[str, str, str]] = []
    for name, read in READERS.items():
        given = read(config.table(name))
        for field in dataclasses.fields(given) if given is not None else ():
            if field.name not in config.table(name):
                value = getattr(given, field.name)
                value = list(value) if isinstance(value, tuple) else value
                rows.append((f"{name}.{field.name}", str(value).lower() if isinstance(value, bool) else str(value), "default"))
    return rows


def _nothing(name: str) -> Callable[[Mapping[str, object]], None]:
    def read(options: Mapping[str, object]) -> None:
        for key in options:
            raise ConfigError(f"{name}.{key} is unknown: {name} has no settings")

    return read


READERS: Final[Mapping[str, Callable[[Mapping[str, object]], Any]]] = {
    "coap": CoapConfig.of,
    "grpc": _nothing("grpc"),
    "http": read_http,
    "http2": _nothing("http2"),
    MQTT: read_mqtt,
    "remoting": read_remoting,
    WEBSOCKET: read_websocket,
}
"""Table of a protocol -> what checks it and says what is in force. Each raises ConfigError."""


def _adapters(config: Config, base: Setting) -> tuple[dict[str, Adapter], dict[str, DatagramAdapter], dict[str, str]]:
    """Stream protocols, datagram protocols, and why those that are not there are not."""
    for name, read in READERS.items():
        # Those too that no adapter reads.
        read(config.table(name))
    streams: dict[str, Adapter] = {}
    datagrams: dict[str, DatagramAdapter] = {}
    missing: dict[str, str] = {}
    places: dict[str, Adapter] = {}
    sockets = WebSocketAdapter(places, config.table(WEBSOCKET), base.refused)
    # It goes before the application that takes whatever nobody else does.
    applications = (sockets, *_load(APPLICATIONS, config, base, missing, ()).values())
    for name, adapter in _load(PROTOCOLS, config, base, missing, applications).items():
        (datagrams if hasattr(adapter, "bind") else streams)[name] = adapter
    if MQTT in streams:
        places["/mqtt"] = streams[MQTT]
        streams[WEBSOCKET] = sockets
    return streams, datagrams, missing


def _load(group: str, config: Config, base: Setting, missing: dict[str, str], applications: Sequence[object]) -> dict[str, Any]:
    """Everything under one entry-point group, by name; one that cannot be imported is named and left out."""
    found: dict[str, Any] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        setting = dataclasses.replace(base, options=config.table(TABLES.get(point.name, point.name)))
        try:
            create = point.load()
        except (ImportError, AttributeError) as error:
            missing[point.name] = str(error)
            continue
        found[point.name] = create(setting, applications) if point.name == HTTP2 else create(setting)
    return found


def _table(kind: type, config: Config, name: str, apart: Sequence[str]) -> dict[str, Any]:
    """One part's table as keyword arguments of its frozen class. Raises ConfigError for unknown keys and wrong types."""
    known = {field.name: field.default for field in dataclasses.fields(kind) if field.name not in apart}
    found: dict[str, Any] = {}
    for key, value in config.table(name).items():
        if name == "store" and key == ENGINE:
            continue
        where = f"{config.sources.get(f'{name}.{key}', '')}: {name}.{key}"
        if key not in known:
            raise ConfigError(f"{where} is unknown{nearest(key, known)}")
        wanted = type(known[key])
        given = float(value) if wanted is float and type(value) is int else value
        if type(given) is not wanted:
            raise ConfigError(f"{where} is {value!r}: {wanted.__name__} is wanted")
        found[key] = given
    return found
