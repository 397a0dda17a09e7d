"""One role of a process: its ports, certificates and reload, in front of what the role puts behind them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import final

from domain.errors import ConfigError, ErrorCode, Failure
from domain.limits import SECOND_NS
from gateway.audit.audit_file import AUDIT_FILE
from gateway.node.client_ports import ClientPorts
from gateway.node.client_side import ClientSide
from gateway.node.protocols import ADMIN, installed
from gateway.node.roles.cluster_access import has_cluster_users
from gateway.node.roles.installed_roles import RoleContext, role_named
from gateway.node.roles.replication_switch import ReplicationSwitch
from gateway.node.roles.role import Role
from gateway.node.roles.role_names import listeners_of, role_behind
from gateway.node.settings import Config
from gateway.node.settings_reload import SettingsReload
from gateway.node.storage import is_rocketmq
from gateway.node.use_cases import ClientWork
from gateway.observe.health import STOPPING, Health
from gateway.observe.metrics import Snapshot, row_of
from gateway.runtime.address import bind, concrete
from gateway.runtime.clock import LoopClock
from gateway.runtime.compiled import in_use
from gateway.runtime.reload import Reload, ReloadSource
from gateway.runtime.startup_ports import WaitingFor, WaitingPorts
from gateway.runtime.tls import TlsContexts
from gateway.runtime.turn_watch import TurnWatch
from protocols.declaration import Listener

log = logging.getLogger("headgate.node")


@final
class Part:
    """A role that clients reach, from `start` to `stop`. The node calls the steps of these for the role behind its own ports.

    ports    listener -> port in use, those of `parts` too
    health   of the process, or, of a part that outlives the node, its own
    role     once made
    """

    def __init__(
        self, config: Config, reread: Callable[[], Config], health: Health, room: Mapping[str, int], over: Callable[[], None],
        parts: Mapping[str, Part] = {},
    ) -> None:  # fmt: skip
        """`room`: how the process divides its connections. `over`: called when the node has to stop, and another one to start.
        `parts`: what this one has beside it, open already."""
        self.config = config
        self.health = health
        self.protocols = installed()
        self.ports: dict[str, int] = {}
        for part in parts.values():
            self.ports.update(part.ports)
        self.clock = LoopClock(asyncio.get_running_loop())
        self.role: Role
        self.side: ClientSide
        self.clients: ClientPorts
        self.reload: Reload
        self._reread = reread
        self._room = room
        self._over = over
        self._parts = parts
        self._sockets: dict[str, socket.socket] = {}
        self._works: Sequence[ClientWork] = ()

    async def start(self) -> None:
        """Bind the ports, make the role, listen. Raises ConfigError for wrong settings, StoreError when the store fails."""
        self.make()
        try:
            self.bind({})
            await self.open(WaitingFor.OTHER_STORE)
            await self.listen()
        except BaseException:
            self.abandon()
            self.clock.end()
            raise
        self.begin()

    def make(self) -> None:
        """Make the role. Raises ConfigError and StoreError."""
        config = self.config
        has_cluster_users(config)
        roles = {name: part.role for name, part in self._parts.items()}
        make = role_named(role_behind(config.role_set, is_rocketmq(config)))
        self.role = make(RoleContext(config, self.clock, self.health, self.protocols, roles, self._over))

    def bind(self, kept: dict[str, socket.socket]) -> None:
        """Bind the ports of clients, but those in `kept`, which are listening. Raises ConfigError: one is taken."""
        config, beside = self.config, self.protocols.beside
        # Ports that were not chosen are bound last: they take none that was.
        for name in sorted(listeners_of(config.role_set, self.protocols.listeners), key=lambda each: each in beside):
            listener = self.protocols.listeners[name]
            if name in self.ports or listener is ADMIN:
                continue
            if listener.datagrams and not listener.secure and config.tls_only:
                log.warning("port %s is not opened: its datagrams have no encryption, and tls_only is set", name)
                continue
            bound = kept.pop(name, None) or self._bound(name, listener)
            if bound is None:
                continue
            self._sockets[name] = bound
            self.ports[name] = bound.getsockname()[1]

    def _bound(self, name: str, listener: Listener) -> socket.socket | None:
        """The socket of a port. None: it is beside another one, and cannot be bound. Raises ConfigError for one that is set."""
        try:
            return bind(name, self.config.host, self.config.port(name), datagrams=listener.datagrams)
        except ConfigError as error:
            if listener.beside is None or f"ports.{name}" in self.config.sources:
                raise
            log.warning("port %s is not opened, for clients that compute it from port %s: %s", name, listener.beside[0], error)
            return None

    @property
    def _host(self) -> str:
        """The name that clients connect to."""
        return self.config.advertise or concrete(self.config.host)

    async def open(self, waiting_for: WaitingFor) -> None:
        """Open the role: clients wait for that. Raises ConfigError and StoreError."""
        waiting = WaitingPorts(waiting_for, self._sockets, self.protocols.refusals)
        try:
            await self.role.open(self.ports, self._host)
        finally:
            waiting.stop()

    async def listen(self, switch: ReplicationSwitch | None = None) -> None:
        """Make the parts that serve clients, and listen at the bound sockets. `switch`: as in SettingsReload."""
        config, role = self.config, self.role
        self._turns = TurnWatch(self.clock)
        self.side = role.client_side
        self._works = self.side.works()
        names = [name for name in ("localhost", "127.0.0.1", "::1", self._host, config.host) if name]
        tls = TlsContexts(self.protocols.recogniser, config.certificate, config.key, role.folder, names, config.client_ca)
        self._tls = tls
        self.clients = ClientPorts(config, self.protocols, self.clock, role, tls, self._room, self.ports)
        tls.check()
        if config.tls_only:
            tls.context(())  # its first client needs the self-signed certificate to connect
        self.reload = self._reloadable(tls, switch)
        for name, bound in self._sockets.items():
            await self.clients.open(name, bound)

    def _reloadable(self, tls: TlsContexts, switch: ReplicationSwitch | None) -> Reload:
        """The sources of a reload. Settings are read before certificates because they name the certificate files."""
        clients = self.clients
        renewal = SettingsReload(self.config, self._reread, self.side, clients.context, switch, clients.room)

        def renew() -> None:
            tls.renew(renewal.config.certificate, renewal.config.key, renewal.config.client_ca)

        sources = [
            ReloadSource("settings", renewal.files, renewal.apply, renewal.details),
            ReloadSource("certificates", tls.files, renew, tls.details),
        ]
        sources += [_reloaded(name, part.reload) for name, part in self._parts.items()]
        return Reload(sources, asyncio.get_running_loop())

    def begin(self) -> None:
        """Clients are served from now on."""
        self._ready_ns = self.clock.monotonic_ns()
        self.role.begin(self._ready_ns, self.clients.end_clients, self.clients.open_port)
        for work in self._works:
            work.begin()
        self._turns.start()

    def snapshot(self, admin_refused: int) -> Snapshot:
        """The figures of the metrics page, now. `admin_refused`: connections that the admin port has refused."""
        side = self.side
        found = self.role.fill(
            Snapshot(
                protocols=[row_of(one) for one in side.counter_registry.all()],
                counters=self._counters(admin_refused),
                access=side.access.refused if side.access is not None else {},
                lost=side.lost(),
                histograms={"loop_turn_seconds": self._turns.turns, "delivery_seconds": side.counter_registry.ages.histogram},
                compiled=in_use(),
            )
        )
        for part in self._parts.values():
            found = part.role.fill(found)
        return found

    def _counters(self, admin_refused: int) -> dict[str, float]:
        side = self.side
        counters: dict[str, float] = {
            **self.reload.counters(),
            **AUDIT_FILE.figures(),
            "connections_max": self.clients.context.limits.connections_max,
            "up_seconds": (self.clock.monotonic_ns() - self._ready_ns) / SECOND_NS,
            "uploads_held_bytes": side.uploads.bytes_held,
            "uploads_refused_total": side.uploads.refused,
            "unread_held_bytes": side.unread.bytes_held,
            "admin_refused_total": admin_refused,
            "tls_handshakes_held_bytes": self._tls.handshakes.bytes_held,
            "tls_handshakes_refused_total": self._tls.handshakes.refused,
        }
        for work in self._works:
            counters |= work.figures()
        if side.throttle is not None:
            counters |= side.throttle.figures()
        if side.failed_logins is not None:
            counters |= side.failed_logins.figures()
        return counters

    # Stop, in this order

    async def pause(self) -> None:
        """Stop accepting, and answer commands in flight."""
        for work in self._works:
            work.pause()
        self.role.pause()
        self._turns.stop()
        self.reload.stop()
        self.clients.pause()
        await self.role.settled()

    async def drain(self) -> None:
        """Answer parked calls, and close all connections."""
        others = self.clients.drain()
        self.role.refuse_waiting(Failure(ErrorCode.DRAINING, "the node stops: ask again, or ask another node"))
        await self.role.settled()
        await self.clients.close(others)

    async def close(self) -> None:
        """Close the store."""
        for work in self._works:
            await work.close()
        await self.role.close()

    async def stop(self) -> None:
        """End the part: all of these steps."""
        self.health.phase = STOPPING
        await self.pause()
        await self.drain()
        await self.close()
        self.clock.end()

    def abandon(self) -> None:
        """The start has failed: free what was taken."""
        for bound in self._sockets.values():
            bound.close()
        self.role.abandon()


def _reloaded(name: str, part: Reload) -> ReloadSource:
    return ReloadSource(name, tuple, part.now, lambda: {"sources": part.state()})
