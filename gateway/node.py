"""The node: the one place that names concrete classes.

`compose` builds everything between the ports (disk, clock, entropy) and the sockets, and is what a simulation uses.
`Node` is the same with the real world around it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, final

from domain.address import host_bytes
from domain.errors import ConfigError, StoreError
from domain.limits import SECOND_NS
from domain.ports import Clock, Disk, Entropy
from gateway.access.administration import Administration
from gateway.access.authority import Access
from gateway.access.gate import Gate
from gateway.access.start import start as start_access
from gateway.config import Config, nearest
from gateway.house import PumpHouse
from gateway.listeners import ABOUT, DATAGRAM, LABELS, SECURE, SPEAKS
from gateway.observe import metrics
from gateway.observe.facts import facts
from gateway.observe.figures import Ledger
from gateway.observe.lag import Lags
from gateway.pump import Pump
from gateway.runtime.admin import Admin
from gateway.runtime.clock import LoopClock
from gateway.runtime.datagram import DatagramPump
from gateway.runtime.disk import DataDirectory
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.stream import StreamListener, bind, hang_up
from gateway.runtime.tls import TlsContexts
from gateway.transport import Handler
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.inspect import Inspecting
from gateway.usecase.latest import SPACE, LatestValues
from gateway.usecase.nameserver import NameServer
from gateway.usecase.policy import STRATEGIES, Policy
from gateway.usecase.query import Querying
from gateway.usecase.recall import Recalling
from gateway.usecase.sessions.sessions import Sessions
from gateway.usecase.topic_change import TopicChanging
from gateway.usecase.transaction import Deciding
from gateway.usecase.watch import Watches
from nameserver.settings import Settings
from nameserver.table import RouteTable
from protocols.adapter import Adapter, DatagramAdapter, Peer, Setting
from protocols.mqtt.connection import MqttAdapter
from protocols.registry import HTTP1, MQTT, WEBSOCKET, Opening
from protocols.websocket.adapter import WebSocketAdapter
from store.config import StoreConfig
from store.engine import LogStore, open_store

PROTOCOLS: Final = "gateway.protocols"
APPLICATIONS: Final = "gateway.applications"
HTTP2: Final = "http2"

TABLES: Final[Mapping[str, str]] = {"http1": "http"}
"""Protocols that share another one's table of the configuration."""

DRAIN_S: Final = 2.0
SETTLE_NS: Final = 10 * SECOND_NS
log = logging.getLogger("headgate.node")


@dataclass(frozen=True, slots=True)
class Parts:
    """A composed node without sockets. `missing` names the protocols that could not be loaded, and why.

    access    the authority, None where access is not controlled; gate: who takes commands, the dispatcher itself without one
    """

    store: LogStore
    handler: Dispatcher
    access: Access | None
    gate: Handler
    streams: Mapping[str, Adapter]
    datagrams: Mapping[str, DatagramAdapter]
    missing: Mapping[str, str]
    watches: Watches
    sessions: Sessions


def part_names() -> list[str]:
    """Names of the configuration tables that parts may have."""
    names = {point.name for group in (PROTOCOLS, APPLICATIONS) for point in entry_points(group=group)}
    return sorted({TABLES.get(name, name) for name in names} | {"store", "policy", "access"})


def compose(config: Config, ports: Mapping[str, int], host: str, disk: Disk, clock: Clock, entropy: Entropy) -> Parts:
    """Open the store and put use cases and protocols on top of it.

    `ports` are the ports really in use, `host` what routes carry. Raises ConfigError and StoreError.
    """
    settings = _table(StoreConfig, config, "store", ("broker", "store_host", "durability"))
    store_host = host_bytes(host, ports.get("remoting", 0))
    store = open_store(
        disk,
        clock,
        StoreConfig(broker=config.broker, store_host=store_host, durability=config.durability, **settings),
    )
    policy = Policy(**_table(Policy, config, "policy", ()))
    if policy.share_strategy not in STRATEGIES:
        raise ConfigError(f"policy.share_strategy is {policy.share_strategy!r}: one of {', '.join(STRATEGIES)} is wanted")
    handler = Dispatcher(
        store=store,
        metadata=store.metadata,
        state=store.state,
        clock=clock,
        entropy=entropy,
        cluster=config.cluster,
        broker=config.broker,
        policy=policy,
    )
    keys = Settings(store.state)
    handler.add(
        NameServer(config.cluster, config.broker, store.metadata, RouteTable(), keys, clock),
        Inspecting(store, store.metadata, clock, lambda: {**store.figures(), **handler.tally.figures()}),
        Querying(store, store.metadata, handler.registry),
        TopicChanging(store.metadata, handler.topics),
        Recalling(store.timers, handler.topics, config.broker, clock),
        deciding := Deciding(store.transactions, handler.registry),
        watches := Watches(clock),
        sessions := Sessions(
            store,
            store.metadata,
            store.state,
            clock,
            handler.sending,
            handler.receiving,
            handler.groups,
            handler.dead_letters,
            handler.registry,
            policy,
        ),
        LatestValues(store.state, clock),
    )
    store.listen(watches)
    store.transactions.listen(deciding)
    store.listen(sessions)
    book, access = start_access(config.table("access"), config.admin, config.controlled, store.state, clock.wall_ms)
    handler.add(Administration(book))
    gate = handler if access is None else Gate(access, handler)
    base = Setting(config.cluster, config.broker, host, ports, entropy, clock.wall_ms, authority=access)
    streams: dict[str, Adapter] = {}
    datagrams: dict[str, DatagramAdapter] = {}
    missing: dict[str, str] = {}
    applications = _load(APPLICATIONS, config, base, missing, ())
    for name, adapter in _load(PROTOCOLS, config, base, missing, tuple(applications.values())).items():
        (datagrams if hasattr(adapter, "bind") else streams)[name] = adapter
    if MQTT in streams:
        streams[WEBSOCKET] = WebSocketAdapter({"/mqtt": streams[MQTT]})
    return Parts(store, handler, access, gate, streams, datagrams, missing, watches, sessions)


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
        where = f"{config.sources.get(f'{name}.{key}', '')}: {name}.{key}"
        if key not in known:
            raise ConfigError(f"{where} is unknown{nearest(key, known)}")
        wanted = type(known[key])
        given = float(value) if wanted is float and type(value) is int else value
        if type(given) is not wanted:
            raise ConfigError(f"{where} is {value!r}: {wanted.__name__} is wanted")
        found[key] = given
    return found


@final
class Node:
    """One process: listeners, pumps and the store, from `start` to `stop`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.ready = False
        self.parts: Parts
        self.ports: dict[str, int] = {}
        self._ledger = Ledger()
        self._streams: list[StreamListener] = []
        self._datagrams: list[DatagramPump] = []
        self._admin: Admin | None = None

    async def start(self) -> None:
        """Bind, recover, listen. Raises ConfigError and StoreError when a person has to change something."""
        loop = asyncio.get_running_loop()
        config = self.config
        self._disk = DataDirectory(Path(config.data), loop)
        sockets: dict[str, socket.socket] = {}
        try:
            self._bind(sockets)
            self._clock = LoopClock(loop)
            host = config.advertise or concrete(config.host)
            self.parts = compose(config, self.ports, host, self._disk, self._clock, SystemEntropy())
            await self._prepared()
            self._lags = Lags(self.parts.store, self.parts.store.metadata)
            self._house = PumpHouse(self.parts.gate, self._clock, self._ledger, config.connections_max, hang_up)
            tls = TlsContexts(config.certificate, config.key, self._disk.path, _names(host, config.host), config.client_ca)
            tls.check()
            for name, bound in sockets.items():
                await self._open(name, bound, tls)
        except BaseException:
            for bound in sockets.values():
                bound.close()
            self._disk.close()
            raise
        self._ready_ns = self._clock.monotonic_ns()
        self.parts.sessions.facts.source = self._facts
        self.ready = True

    async def _prepared(self) -> None:
        """Until the topics that clients expect to find are stored: a client that comes first must find them."""
        end = self._clock.monotonic_ns() + SETTLE_NS
        while not self.parts.handler.ready:
            if self._clock.monotonic_ns() > end:
                raise StoreError(f"the store in {self._disk.path} takes no writes: see the log above for the disk's error")
            await asyncio.sleep(0.002)

    def _bind(self, sockets: dict[str, socket.socket]) -> None:
        for name in self.config.ports:
            kind = socket.SOCK_DGRAM if name in DATAGRAM else socket.SOCK_STREAM
            sockets[name] = bind(name, self.config.host, self.config.port(name), kind)
            self.ports[name] = sockets[name].getsockname()[1]

    async def _open(self, name: str, bound: socket.socket, tls: TlsContexts) -> None:
        if name == "admin":
            self._admin = Admin(lambda: self.ready and self.parts.store.broken is None, self.metrics)
            await self._admin.open(bound)
            return
        if name in DATAGRAM:
            adapter = self.parts.datagrams.get(name)
            if adapter is not None:
                endpoint = adapter.bind(self._clock.monotonic_ns())
                pump = DatagramPump(self._house, bound, endpoint, name, asyncio.get_running_loop())
                pump.open()
                self._datagrams.append(pump)
                return
        else:
            speaks = SPEAKS[name]
            found = self.parts.streams.items()
            adapters = {protocol: adapter for protocol, adapter in found if speaks is None or protocol in speaks}
            if SPEAKS[name] == (WEBSOCKET,) and adapters:
                # Any other path gets an answer too.
                adapters[HTTP1] = adapters[WEBSOCKET]
            if adapters:
                listener = StreamListener(name, bound)
                await listener.open(self._pump_of(name, adapters, tls))
                self._streams.append(listener)
                return
        bound.close()
        del self.ports[name]

    def _pump_of(self, listener: str, adapters: Mapping[str, Adapter], tls: TlsContexts) -> Callable[[], Pump]:
        """What makes the pumps of one listener."""
        secure = tls.secure(adapters)
        plain = {} if listener in SECURE else adapters
        labels = {protocol: LABELS.get((listener, protocol), protocol) for protocol in adapters}

        def connect(peer: Peer, now: int) -> Opening:
            return Opening(plain, secure, peer, now)

        def make() -> Pump:
            return Pump(self._house, listener, connect, labels)

        return make

    def lines(self) -> list[tuple[str, str, str]]:
        """(listener, address, what it is for) for every listener that is open."""
        host = self.config.host
        shown = f"[{host}]" if ":" in host else host
        return [(name, f"{shown}:{port}", ABOUT[name]) for name, port in self.ports.items()]

    def metrics(self) -> str:
        """The Prometheus text of this moment."""
        up_s = (self._clock.monotonic_ns() - self._ready_ns) / SECOND_NS
        expired = self.parts.handler.receiving.expired
        refused = self.parts.access.refused if self.parts.access is not None else {}
        figures = self.parts.store.figures()
        return metrics.text(self._ledger.all(), figures, self._lags.look(), up_s, expired, refused, self._counters())

    def _facts(self) -> dict[str, str]:
        sessions = self.parts.sessions
        counts = {
            "clients/connected": sessions.attached,
            "subscriptions/count": sessions.interests,
            "retained messages/count": self.parts.store.state.size(SPACE)[0],
        }
        return facts(self._ledger.all(), counts, (self._clock.monotonic_ns() - self._ready_ns) // SECOND_NS)

    def _counters(self) -> dict[str, int]:
        mqtt = self.parts.streams.get(MQTT)
        lost = {"mqtt_lost_total": mqtt.lost} if isinstance(mqtt, MqttAdapter) else {}
        oversize = self.parts.sessions.oversize
        return {**lost, "share_oversize_total": oversize, "watch_dropped_total": self.parts.watches.dropped}

    async def stop(self) -> None:
        """Take nothing new, answer what is in flight, close every connection, and close the store."""
        self.ready = False
        pumps = self._house.pumps
        for listener in self._streams:
            listener.close()
        for pump in pumps:
            pump.pause()
        for datagrams in self._datagrams:
            datagrams.pause()
        await self._settled()
        for datagrams in self._datagrams:
            datagrams.close()
        for pump in list(pumps):
            pump.drain()
        await self._settled()
        loop = asyncio.get_running_loop()
        limit = loop.time() + DRAIN_S
        while pumps and loop.time() < limit:
            await asyncio.sleep(0.005)
        for pump in list(pumps):
            pump.abort()
        if self._admin is not None:
            await self._admin.close()
        drained = loop.create_future()
        self.parts.store.drain(lambda: drained.set_result(None))
        await self._within(drained)
        self.parts.store.close()
        self._disk.close()

    async def _settled(self) -> None:
        """Everything appended before this has been answered: commits answer in their order."""
        done = asyncio.get_running_loop().create_future()
        self.parts.store.append([], lambda _: done.set_result(None))
        await self._within(done)
        await asyncio.sleep(0)

    async def _within(self, done: asyncio.Future[None]) -> None:
        """Wait, but not for ever: a store whose disk hangs must not keep the process."""
        ready, _ = await asyncio.wait([done], timeout=DRAIN_S)
        if not ready:
            log.warning("the store did not answer within %s s; closing all the same", DRAIN_S)


def concrete(host: str) -> str:
    """The address that others reach `host` by: itself, or for a wildcard the first one that is not loopback."""
    if host not in ("0.0.0.0", "::", ""):
        return "127.0.0.1" if host == "localhost" else host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _names(*hosts: str) -> list[str]:
    return [name for name in ("localhost", "127.0.0.1", "::1", *hosts) if name]
