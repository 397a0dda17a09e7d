"""The node: ports, TLS and connections of clients, in front of what the roles of the process put behind them."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, final

from domain.address import endpoint_text
from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.topic import Durability
from gateway.guard.descriptors import lowered, rooms
from gateway.node.client_ports import ClientPorts
from gateway.node.client_side import ClientSide
from gateway.node.protocols import ADMIN, installed
from gateway.node.roles.cluster_access import has_cluster_users
from gateway.node.roles.installed_roles import RoleContext, role_named
from gateway.node.roles.replication_switch import ReplicationSwitch
from gateway.node.roles.role import Role
from gateway.node.roles.role_names import (
    CONTROLLER,
    GATEWAY,
    NAMESERVER,
    REPLICA,
    STORE,
    listeners_of,
    parts_of,
    role_behind,
)
from gateway.node.settings import Config, is_loopback
from gateway.node.settings_reload import SettingsReload
from gateway.node.storage import is_replicated, is_rocketmq
from gateway.node.use_cases import ClientWork, installed_use_cases
from gateway.observe.health import SERVING, STOPPING, Health
from gateway.observe.metrics import Snapshot, row_of
from gateway.runtime.address import bind, concrete
from gateway.runtime.admin.server import AdminServer
from gateway.runtime.admin.view import AdminView, Controls
from gateway.runtime.clock import LoopClock
from gateway.runtime.compiled import in_use
from gateway.runtime.machine import open_files_max
from gateway.runtime.reload import Reload, ReloadSource
from gateway.runtime.startup_ports.ports import WaitingFor, WaitingPorts
from gateway.runtime.tls import TlsContexts
from gateway.runtime.turn_watch import TurnWatch
from protocols.hosts import Hosts
from protocols.http.settings import HttpSettings

_PART_NAMES: Final = {NAMESERVER: "names", CONTROLLER: "controller", REPLICA: "replica"}
"""Role that is a part of its own -> what its lines begin with in the table at the start."""
log = logging.getLogger("headgate.node")


@final
class Node:
    """One server process, from `start` to `stop`.

    role   what is behind the ports; while it runs
    over   set when the node has to be stopped, and a new one started: its store leads its group no more, or is to be another's
    next   configuration of that one
    kept   listening sockets for that one, by listener: connections wait there
    controller   the part that is a controller, which outlives this node where another one takes its place; None: there is none
    admin   the server of the admin port, which outlives this node too; None: it is not made yet, or this node is a part
    """

    def __init__(
        self, config: Config, reread: Callable[[], Config] | None = None, health: Health | None = None,
        kept: dict[str, socket.socket] | None = None, controller: Node | None = None, room: Mapping[str, int] | None = None,
        admin: AdminServer | None = None,
    ) -> None:  # fmt: skip
        """`health`: that of the node which this one is a part of, and which has the admin port; None: it is one by itself.
        `kept`, `controller`, `admin`: what the node in whose place this one is leaves. `room`: how the process
        divides its connections; None: this node does that."""
        self.config = self.next = config
        self.kept = kept or {}
        self.controller = controller
        self.admin = admin
        self._switch: ReplicationSwitch | None = None
        self._part = health is not None
        self._room = room or {}
        self.protocols = installed()
        self.role: Role
        self.side: ClientSide
        self.reload: Reload
        self._reread = reread or (lambda: config)
        self.health = health or Health(time.monotonic_ns)
        self._parts: dict[str, Node] = {}
        self.ports: dict[str, int] = {}
        self.clients: ClientPorts
        self._works: Sequence[ClientWork] = ()
        self.over = asyncio.Event()

    async def start(self) -> None:
        """Bind the ports, make the parts, listen. Raises ConfigError for wrong settings, StoreError when the store fails."""
        config = self.config
        self._clock = LoopClock(asyncio.get_running_loop())
        try:
            before_cluster = is_rocketmq(config)
            replicated = is_replicated(config) and not before_cluster
            parts = parts_of(config.role_set, replicated)
            self._room = self._room or _divided(config, parts)
            parts = [name for name in parts if not (before_cluster and name == NAMESERVER)]
            rest = _without_controller(config)
            own = role_behind(rest.role_set, before_cluster)
            for name in (*parts, own):
                role_named(name)  # imported before a part runs: an import stops the loop
            for name in parts:
                await self._start_part(name)
            config = self.config = rest
            has_cluster_users(config)
            roles = {name: part.role for name, part in self._parts.items()}
            context = RoleContext(config, self._clock, self.health, self.protocols, roles, self.over.set)
            role = self.role = role_named(own)(context)
        except BaseException:
            await self._stop_parts(self.over.is_set())
            raise
        sockets: dict[str, socket.socket] = {}
        inherited = bool(self.kept)
        try:
            self._bind(sockets)
            waiting_for = WaitingFor.OWN_STORE if inherited else _waiting_for(config, replicated)
            if self.admin is not None:
                self.admin.wait(self._waiting_view())
            waiting = WaitingPorts(waiting_for, sockets, self.protocols.refusals)
            host = config.advertise or concrete(config.host)
            try:
                await role.open(self.ports, host)
            finally:
                waiting.stop()
            await self._listen(role, host, sockets)
        except BaseException:
            for bound in sockets.values():
                bound.close()
            role.abandon()
            await self._stop_parts(self.over.is_set())
            if self.admin is not None and not self.over.is_set():
                await self.admin.close()
            self._clock.end()
            raise
        self._ready_ns = self._clock.monotonic_ns()
        role.begin(self._ready_ns, self.clients.end_clients, self.clients.open_port)
        for work in self._works:
            work.begin()
        self._turns.start()
        if not self._part:
            self.health.phase = SERVING
            if few := lowered(config.connections_max, self._room, open_files_max()):
                log.warning(few)

    async def _listen(self, role: Role, host: str, sockets: Mapping[str, socket.socket]) -> None:
        """Make the parts that serve clients, and listen at the bound sockets; `host` is the name that clients connect to."""
        config = self.config
        self._turns = TurnWatch(self._clock)
        self.side = role.client_side
        self._works = self.side.works()
        names = [name for name in ("localhost", "127.0.0.1", "::1", host, config.host) if name]
        tls = TlsContexts(self.protocols.recogniser, config.certificate, config.key, role.folder, names, config.client_ca)
        self.clients = ClientPorts(config, self.protocols, self._clock, role, tls, self._room, self.ports)
        tls.check()
        if config.tls_only:
            tls.context(())  # its first client needs the self-signed certificate to connect
        self.reload = self._reloadable(tls)
        for name, bound in sockets.items():
            await self.clients.open(name, bound)
        if self.admin is not None:
            await self.admin.serve(self._serving_view(), self._clock, self.clients.context.intake)

    async def _start_part(self, name: str) -> None:
        """Serve the port of a role that is a part of its own, whether or not what is behind the others is there."""
        node = self.controller if name == CONTROLLER else None
        if node is None:
            reread = self._reread
            # A controller has a health of its own: that of this node ends with the node.
            health = Health(time.monotonic_ns) if name == CONTROLLER else self.health
            node = Node(_alone(self.config, name), lambda: _alone(reread(), name), health, room=self._room)
            if name != CONTROLLER:
                node.over = self.over
            await node.start()
        if name == CONTROLLER:
            self.controller = node
            self.health.beside = (node.health,)
        self._parts[name] = node
        self.ports.update(node.ports)

    async def _stop_parts(self, goes_on: bool = False) -> None:
        """Stop the parts. `goes_on`: another node takes the place of this one, and the controller is for that."""
        parts = [part for part in self._parts.values() if part is not self.controller]
        self._parts.clear()
        if not goes_on and self.controller is not None:
            parts.append(self.controller)
            self.controller = None
        for part in parts:
            await part.stop()

    def _reloadable(self, tls: TlsContexts) -> Reload:
        """The sources of a reload. Settings are read before certificates because they name the certificate files."""
        reread = self._reread
        if not self._part:
            replica = self._parts.get(REPLICA)
            replicating = None if replica is None else replica.role
            self._switch = ReplicationSwitch(self.next, self._clock, replicating, self._restart)
        renewal = SettingsReload(
            self.config, lambda: _without_controller(reread()), self.side, self.clients.context, self._switch,
            self.clients.room,
        )  # fmt: skip

        def renew() -> None:
            tls.renew(renewal.config.certificate, renewal.config.key, renewal.config.client_ca)

        sources = [
            ReloadSource("settings", renewal.files, renewal.apply, renewal.details),
            ReloadSource("certificates", tls.files, renew, tls.details),
        ]
        sources += [_reloaded(name, part.reload) for name, part in self._parts.items()]
        return Reload(sources, asyncio.get_running_loop())

    def _restart(self, config: Config) -> None:
        """Replace this node by one with another configuration, behind the same listening sockets."""
        self.next = config
        self.kept = self.clients.kept()
        self.over.set()

    def _bind(self, sockets: dict[str, socket.socket]) -> None:
        config = self.config
        for name in listeners_of(config.role_set, self.protocols.listeners):
            listener = self.protocols.listeners[name]
            if name in self.ports or (listener is ADMIN and self._part):
                continue
            if listener.datagrams and not listener.secure and config.tls_only:
                log.warning("port %s is not opened: its datagrams have no encryption, and tls_only is set", name)
                continue
            if listener is ADMIN:
                host = config.admin_host
                if config.tls_only and not is_loopback(host):
                    log.warning("port %s takes no TLS, whatever tls_only says: let nobody else reach %s", name, host)
                self.admin = self.admin or AdminServer(bind(name, host, config.port(name)))
                bound = self.admin.bound
            else:
                kept = self.kept.pop(name, None)
                bound = kept or bind(name, config.host, config.port(name), datagrams=listener.datagrams)
                sockets[name] = bound
            self.ports[name] = bound.getsockname()[1]

    @property
    def _storing(self) -> Role:
        """The role that has a store in this process, if any has."""
        part = self._parts.get(NAMESERVER)
        return self.role if part is None else part.role

    def lines(self) -> list[tuple[str, str, str]]:
        """(listener, address, description) of every open listener."""
        config, listeners = self.config, self.protocols.listeners
        return [
            (name, endpoint_text(config.admin_host if name == ADMIN.name else config.host, port), listeners[name].about)
            for name, port in self.ports.items()
        ]

    def details(self) -> list[tuple[str, str]]:
        """(what, how it is) for the table that is printed at the start."""
        own = [(f"{_PART_NAMES[name]} {what}", how) for name, part in self._parts.items() for what, how in part.role.lines()]
        return [*self.role.lines(), *own]

    def snapshot(self) -> Snapshot:
        """The figures of the metrics page, now."""
        side = self.side
        found = self.role.fill(
            Snapshot(
                protocols=[row_of(one) for one in side.counter_registry.all()],
                counters=self._counters(),
                access=side.access.refused if side.access is not None else {},
                lost=side.lost(),
                histograms={"loop_turn_seconds": self._turns.turns, "delivery_seconds": side.counter_registry.ages.histogram},
                compiled=in_use(),
            )
        )
        for part in self._parts.values():
            found = part.role.fill(found)
        return found

    def _hosts(self) -> Hosts:
        return Hosts(self.config.part(HttpSettings, "http").hosts, self.config.advertise)

    def _waiting_view(self) -> AdminView:
        """This node, for the admin port, while it does not serve: a replica that follows has metrics."""
        part = self._parts.get(REPLICA)
        if part is None:
            return AdminView(self.health, self._hosts())
        snapshot = partial(part.role.standby_snapshot, [each.role for each in self._parts.values()])
        return AdminView(self.health, self._hosts(), part.role.accesses, snapshot)

    def _serving_view(self) -> AdminView:
        """This node, for the admin port, while it serves."""
        access = self.side.access
        controls = Controls(self.reload.state, self.reload.now, self._storing.backups, str(self.role.folder))
        return AdminView(self.health, self._hosts(), lambda: () if access is None else (access,), self.snapshot, controls)

    def _counters(self) -> dict[str, float]:
        side = self.side
        counters: dict[str, float] = {
            **self.reload.counters(),
            "connections_max": self.clients.context.connections_max,
            "up_seconds": (self._clock.monotonic_ns() - self._ready_ns) / SECOND_NS,
            "uploads_held_bytes": side.uploads.bytes_held,
            "uploads_refused_total": side.uploads.refused,
            "unread_held_bytes": side.unread.bytes_held,
            "admin_refused_total": 0 if self.admin is None else self.admin.refused,
        }
        for work in self._works:
            counters |= work.figures()
        if side.throttle is not None:
            counters["held_off_total"] = side.throttle.held_off
        return counters

    async def stop(self, goes_on: bool = False) -> None:
        """Stop accepting, answer commands in flight and parked calls, close all connections, close the store.

        `goes_on`: another node takes the place of this one: `controller` and `admin` stay, and belong to that.
        """
        self.health.phase = STOPPING
        replica = self._parts.pop(REPLICA, None)
        if self._switch is not None:
            self._switch.stop()
        for work in self._works:
            work.pause()
        self.role.pause()
        self._turns.stop()
        self.reload.stop()
        self.clients.pause()
        await self.role.settled()
        if replica is not None and not self.kept:
            await replica.role.hand_over()
        await self._stop_parts(goes_on)
        others = self.clients.drain()
        self.role.refuse_waiting(Failure(ErrorCode.DRAINING, "the node stops: ask again, or ask another node"))
        await self.role.settled()
        await self.clients.close(others)
        if self.admin is not None:
            await (self.admin.leave(AdminView(self.health, self._hosts())) if goes_on else self.admin.close())
        for work in self._works:
            await work.close()
        await self.role.close()
        if replica is not None:
            await replica.stop()
        self._clock.end()


def _alone(config: Config, role: str) -> Config:
    """The configuration of a role that is a part of its own. A controller and a replica keep users of their own."""
    apart = role in (CONTROLLER, REPLICA)
    level = Durability.FLUSHED if role == REPLICA else config.durability
    return replace(config, roles=role, data=f"{config.data}/{role}" if apart else config.data, durability=level)


def _waiting_for(config: Config, replicated: bool) -> WaitingFor:
    """The conditions that a node with this configuration waits for before it serves clients."""
    if STORE not in config.role_set:
        return WaitingFor.OTHER_STORE
    return WaitingFor.ELECTION if replicated else WaitingFor.OWN_STORE


def _divided(config: Config, parts: Sequence[str]) -> Mapping[str, int]:
    """How many connections there are file descriptors for."""
    limit = open_files_max()
    sinks = sum(each.sinks(config, limit) for each in installed_use_cases().values()) if GATEWAY in config.role_set else 0
    return rooms(limit, parts, STORE in config.role_set, sinks, is_rocketmq(config))


def _without_controller(config: Config) -> Config:
    """The configuration of the other roles."""
    rest = config.role_set - {CONTROLLER}
    return replace(config, roles=",".join(sorted(rest))) if rest else config


def _reloaded(name: str, part: Reload) -> ReloadSource:
    return ReloadSource(name, tuple, part.now, lambda: {"sources": part.state()})
