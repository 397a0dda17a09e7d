"""The node: the parts that `gateway.node.composition` makes, with real sockets, disk, clock and TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from domain.access import CLUSTER, EVERY, GET, LIST, Need
from domain.backup import BackedUp
from domain.errors import ErrorCode, Failure, StoreError
from domain.limits import SECOND_NS
from domain.principal import Principal
from domain.store_event import StoreEvent
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.guard.admission import Admission
from gateway.guard.config import ProxyConfig
from gateway.guard.proxies import Proxies
from gateway.node.composition import Parts, compose
from gateway.node.config import Config
from gateway.node.protocols import ADMIN, installed
from gateway.node.renewal import Renewal
from gateway.observe.counters import CounterRegistry
from gateway.observe.health import SERVING, STOPPING, Health
from gateway.observe.lag import Lags
from gateway.observe.metrics import Snapshot, row_of
from gateway.observe.store_log import log_store_event
from gateway.observe.sys_values import sys_values
from gateway.runtime.address import bind, concrete
from gateway.runtime.admin import Admin
from gateway.runtime.clock import LoopClock
from gateway.runtime.compiled import in_use
from gateway.runtime.datagram import DatagramPump
from gateway.runtime.datagram_group import share_by_host
from gateway.runtime.disk import DataDirectory
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.memory import hot_bytes
from gateway.runtime.reload import Reload, ReloadSource
from gateway.runtime.startup_admin import StartupAdmin
from gateway.runtime.stream import StreamListener, half_close
from gateway.runtime.tls import TlsContexts
from gateway.runtime.turn_watch import TurnWatch
from protocols.adapter import Losing, Peer
from protocols.declaration import Listener
from protocols.hosts import Hosts
from protocols.http.config import HttpConfig
from protocols.proxy.connection import ProxiedConnection
from protocols.registry import Opening

DRAIN_S: Final = 2.0
"""Seconds that the store has to answer."""
LAST_ANSWERS_S: Final = 10.0
"""Seconds that clients have to take their last answers."""
SETTLE_NS: Final = 10 * SECOND_NS
_WATCH: Final = Need(CLUSTER, EVERY, (GET, LIST))
"""The right to read the metrics."""
log = logging.getLogger("headgate.node")


@final
class Node:
    """The listeners, pumps and store of one server process, from `start` to `stop`."""

    def __init__(self, config: Config, reread: Callable[[], Config] | None = None) -> None:
        self.config = config
        self.protocols = installed()
        self.reload: Reload
        self._reread = reread or (lambda: config)
        self.health = Health(time.monotonic_ns)
        self.parts: Parts
        self.ports: dict[str, int] = {}
        self._counter_registry: CounterRegistry
        self._streams: list[StreamListener] = []
        self._datagrams: list[DatagramPump] = []
        self._admin: Admin | None = None

    async def start(self) -> None:
        """Bind the ports, open the store, listen. Raises ConfigError for wrong settings, StoreError when the store fails."""
        loop = asyncio.get_running_loop()
        config = self.config
        self._disk = DataDirectory(Path(config.data), loop)
        sockets: dict[str, socket.socket] = {}
        try:
            self._bind(sockets)
            starting = StartupAdmin(sockets[ADMIN.name], self.health)
            self._clock = LoopClock(loop)
            host = config.advertise or concrete(config.host)
            try:
                self.parts = self._composed(host)
                self._counter_registry = self.parts.counter_registry
                await self._prepared()
            finally:
                starting.stop()
            self._lags = Lags(self.parts.store.outlook, self._clock)
            self._turns = TurnWatch(self._clock)
            self._proxies = Proxies(config.part(ProxyConfig, "proxy"))
            admission_check = Admission(self.parts.limits) if self.parts.limits.limits_connections else None
            self._connection_context = ConnectionContext(
                self.parts.gate,
                self._clock,
                self._counter_registry,
                config.connections_max,
                half_close,
                admission_check,
                self._proxies.holds,
                self.parts.limits.output_bytes_max,
                self.parts.unfinished_bytes,
                self.parts.unread,
            )
            tls = self._contexts(host)
            tls.check()
            self.reload = self._reloadable(tls)
            for name, bound in sockets.items():
                await self._open(self.protocols.listeners[name], bound, tls)
        except BaseException:
            for bound in sockets.values():
                bound.close()
            self._disk.close()
            raise
        self._ready_ns = self._clock.monotonic_ns()
        self.parts.sessions.sys_topics.source = self._sys_values
        self._lags.start()
        self._turns.start()
        self.health.phase = SERVING

    def _composed(self, host: str) -> Parts:
        entropy = SystemEntropy()
        disk, clock = self._disk, self._clock
        try:
            return compose(self.config, self.ports, host, disk, clock, entropy, hot_bytes(), self.protocols, self._report)
        except StoreError as error:
            if not error.repairable:
                raise
            folder = self._disk.path
            text = f"{error}. Nothing was changed. `headgate check {folder}` lists all of it; run `headgate repair {folder}`"
            raise StoreError(f"{text} to set it aside and to start with all the rest", error.file) from error

    def _report(self, event: StoreEvent) -> None:
        """An event of the store: a line in the log, and perhaps a reason why the node does not serve."""
        self.health.heard(event)
        log_store_event(event)

    def _contexts(self, host: str) -> TlsContexts:
        config, names = self.config, _names(host, self.config.host)
        recogniser = self.protocols.recogniser
        return TlsContexts(recogniser, config.certificate, config.key, self._disk.path, names, config.client_ca)

    def _reloadable(self, tls: TlsContexts) -> Reload:
        """The sources of a reload. Settings are read before certificates because they name the certificate files."""
        parts = self.parts
        context = self._connection_context
        renewal = Renewal(self.config, self._reread, parts.access_records, parts.access, parts.throttle, context)

        def renew() -> None:
            tls.renew(renewal.config.certificate, renewal.config.key, renewal.config.client_ca)

        sources = [
            ReloadSource("settings", renewal.files, renewal.apply, renewal.details),
            ReloadSource("certificates", tls.files, renew, tls.details),
        ]
        return Reload(sources, asyncio.get_running_loop())

    async def _prepared(self) -> None:
        """Wait until the topics that exist on every node are stored, so that the first client finds them.

        Raises StoreError when they are not stored within `SETTLE_NS`.
        """
        end = self._clock.monotonic_ns() + SETTLE_NS
        while not self.parts.handler.ready:
            if self._clock.monotonic_ns() > end:
                raise StoreError(f"the store in {self._disk.path} takes no writes: see the log above for the disk's error")
            await asyncio.sleep(0.002)

    def _bind(self, sockets: dict[str, socket.socket]) -> None:
        for name, listener in self.protocols.listeners.items():
            sockets[name] = bind(name, self._host(name), self.config.port(name), datagrams=listener.datagrams)
            self.ports[name] = sockets[name].getsockname()[1]

    def _host(self, name: str) -> str:
        """The address that a listener binds."""
        return self.config.admin_host if name == ADMIN.name else self.config.host

    async def _open(self, listener: Listener, bound: socket.socket, tls: TlsContexts) -> None:
        """Serve one port. Closes the port when no protocol that it accepts is available."""
        adapters = self.parts.adapters
        if listener is ADMIN:
            hosts = Hosts(self.config.part(HttpConfig, "http").hosts, self.config.advertise)
            store = self.parts.store
            self._admin = Admin(
                self.health, self.snapshot, self.reload.state, self.reload.now, hosts, self.parts.access,
                store.backups if isinstance(store, BackedUp) else None, str(self._disk.path), self._may_watch,
            )  # fmt: skip
            await self._admin.open(bound, self._clock, self._connection_context.intake)
        elif listener.datagrams:
            endpoint = adapters.datagrams[self.protocols.owners[listener.name]].bind(self._clock.monotonic_ns())
            pump = DatagramPump(
                self._connection_context, share_by_host(bound), endpoint, listener.name, asyncio.get_running_loop()
            )
            pump.open()
            self._datagrams.append(pump)
        elif self.protocols.taken(listener, adapters.streams):
            stream = StreamListener(listener.name, bound)
            await stream.open(self._pump_of(listener, tls))
            self._streams.append(stream)
        else:
            bound.close()
            del self.ports[listener.name]

    def _pump_of(self, listener: Listener, tls: TlsContexts) -> Callable[[], Pump]:
        """The function that makes a pump for each connection to one listener."""
        adapters = self.protocols.taken(listener, self.parts.adapters.streams)
        recogniser, secure = self.protocols.recogniser, tls.secure(adapters)
        plain = {} if listener.secure else adapters
        proxies = self._proxies
        labels = self.protocols.labels(listener)

        def direct(peer: Peer, now: int) -> Opening:
            return Opening(recogniser, plain, secure, peer, now)

        def connect(peer: Peer, now: int) -> Opening | ProxiedConnection:
            return ProxiedConnection(direct, proxies.required, peer, now) if proxies.holds(peer.host) else direct(peer, now)

        def make() -> Pump:
            return Pump(self._connection_context, listener.name, connect if proxies else direct, labels)

        return make

    def lines(self) -> list[tuple[str, str, str]]:
        """(listener, address, description) of every open listener."""
        return [
            (name, f"{_shown(self._host(name))}:{port}", self.protocols.listeners[name].about)
            for name, port in self.ports.items()
        ]

    def snapshot(self) -> Snapshot:
        """What the metrics page shows, now."""
        parts = self.parts
        counters = parts.handler.counters
        stored, delivered = counters.sums()
        return Snapshot(
            [row_of(one) for one in self._counter_registry.all()],
            parts.store.figures(),
            self._counters(),
            parts.access.refused if parts.access is not None else {},
            self._lost(),
            counters.topics(),
            counters.deliveries(),
            stored,
            delivered,
            self._lags.rows,
            self._lags.others,
            self._lags.age_s(),
            {
                **parts.store.histograms(),
                "loop_turn_seconds": self._turns.turns,
                "delivery_seconds": self._counter_registry.ages.histogram,
            },
            in_use(),
        )

    def _sys_values(self) -> dict[str, str]:
        sessions = self.parts.sessions
        retained, retained_bytes = self.parts.latest_values.held()
        lost = self._lost()
        counts = {
            "clients/connected": sessions.attached,
            "clients/maximum": sessions.attached_max,
            "subscriptions/count": sessions.subscription_count,
            "retained messages/count": retained,
            "store/messages/bytes": retained_bytes,
            "publish/messages/dropped": sum(lost.values()),
            **{f"publish/messages/dropped/{reason}": count for reason, count in lost.items()},
        }
        return sys_values(self._counter_registry.all(), counts, (self._clock.monotonic_ns() - self._ready_ns) // SECOND_NS)

    def _lost(self) -> dict[str, int]:
        """Reason -> number of messages that were dropped instead of being delivered to an MQTT client."""
        lost = dict(self.parts.sessions.lost)
        for adapter in self.parts.adapters.streams.values():
            for reason, count in adapter.lost.items() if isinstance(adapter, Losing) else ():
                lost[reason] = lost.get(reason, 0) + count
        return lost

    def _may_watch(self, principal: Principal) -> bool:
        """True for users who may read the metrics."""
        access = self.parts.access
        return principal.privileged or access is None or access.verdict(principal, _WATCH) is None

    def _counters(self) -> dict[str, float]:
        sessions = self.parts.sessions
        retained, retained_bytes = self.parts.latest_values.held()
        counters: dict[str, float] = {
            "up_seconds": (self._clock.monotonic_ns() - self._ready_ns) / SECOND_NS,
            "messages_expired_total": self.parts.handler.receiving.expired + self.parts.handler.pulling.expired,
            "mqtt_sessions_connected": sessions.attached,
            "mqtt_sessions_connected_max": sessions.attached_max,
            "mqtt_subscriptions": sessions.subscription_count,
            "mqtt_retained": retained,
            "mqtt_retained_bytes": retained_bytes,
        }
        oversize = self.parts.sessions.oversize
        throttle = self.parts.throttle
        if throttle is not None:
            counters["held_off_total"] = throttle.held_off
        counters["watch_dropped_total"] = self.parts.watches.dropped
        counters["uploads_held_bytes"] = self.parts.uploads.bytes_held
        counters["admin_refused_total"] = 0 if self._admin is None else self._admin.refused
        counters["unread_held_bytes"] = self.parts.unread.bytes_held
        counters["uploads_refused_total"] = self.parts.uploads.refused
        return {**self.reload.counters(), **counters, "share_oversize_total": oversize}

    async def stop(self) -> None:
        """Stop accepting, answer commands in flight and parked calls, close all connections, close the store."""
        self.health.phase = STOPPING
        self._lags.stop()
        self._turns.stop()
        self.reload.stop()
        pumps = self._connection_context.pumps
        for listener in self._streams:
            listener.close()
        for pump in pumps:
            pump.pause()
        for datagrams in self._datagrams:
            datagrams.pause()
        await self._settled()
        for datagrams in self._datagrams:
            datagrams.close()
        others = [pump for pump in list(pumps) if not pump.drain()]
        stopping = Failure(ErrorCode.DRAINING, "the node stops: ask again, or ask another node")
        for review in self.parts.handler.reviews:
            review(lambda connection, command: stopping)
        await self._settled()
        for pump in others:
            pump.close()
        loop = asyncio.get_running_loop()
        limit = loop.time() + LAST_ANSWERS_S
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
        """Wait until all earlier appends are answered. Appends are answered in order, so an empty append is the last."""
        done = asyncio.get_running_loop().create_future()
        self.parts.store.log.append([], lambda _: done.set_result(None))
        await self._within(done)
        await asyncio.sleep(0)

    async def _within(self, done: asyncio.Future[None]) -> None:
        """Wait for `done`, at most `DRAIN_S` seconds: a disk that hangs must not keep the process from ending."""
        ready, _ = await asyncio.wait([done], timeout=DRAIN_S)
        if not ready:
            log.warning("the store did not answer within %s s; closing all the same", DRAIN_S)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _names(*hosts: str) -> list[str]:
    return [name for name in ("localhost", "127.0.0.1", "::1", *hosts) if name]
