"""The node: the roles of a process, each a part with ports of its own, and the port for administration."""

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
from domain.topic.topic import Durability
from gateway.audit.settings import AuditSettings
from gateway.audit.trail import AuditTrail
from gateway.guard.descriptors import lowered, rooms
from gateway.node.part import Part
from gateway.node.protocols import ADMIN, installed
from gateway.node.roles.installed_roles import role_named
from gateway.node.roles.replication_switch import ReplicationSwitch
from gateway.node.roles.role_names import CONTROLLER, GATEWAY, NAMESERVER, REPLICA, STORE, parts_of, role_behind
from gateway.node.settings import Config, is_loopback
from gateway.node.storage import is_replicated, is_rocketmq
from gateway.node.use_cases import installed_use_cases
from gateway.observe.health import SERVING, STOPPING, Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.address import bind
from gateway.runtime.admin.server import AdminServer
from gateway.runtime.admin.view import AdminView, Controls
from gateway.runtime.machine import open_files_max
from gateway.runtime.startup_ports import WaitingFor
from protocols.hosts import Hosts
from protocols.http.settings import HttpSettings

_PART_NAMES: Final = {NAMESERVER: "names", CONTROLLER: "controller", REPLICA: "replica"}
"""Role that is a part of its own -> what its lines begin with in the table at the start."""
log = logging.getLogger("headgate.node")


@final
class Node:
    """One server process, from `start` to `stop`, or to the node that takes its place.

    own    the part with the ports of clients; once its role is made
    parts  roles that are parts of their own, by name
    over   set when the node has to be stopped, and a new one started: its store leads its group no more, or is to be another's
    next   configuration of that one
    kept   listening sockets for that one, by listener: connections wait there
    controller   the part that is a controller, which outlives this node where another one takes its place; None: there is none
    admin  the server of the admin port, which outlives this node too; None: it is not made yet
    """

    def __init__(
        self, config: Config, reread: Callable[[], Config] | None = None, kept: dict[str, socket.socket] | None = None,
        controller: Part | None = None, admin: AdminServer | None = None,
    ) -> None:  # fmt: skip
        """`kept`, `controller`, `admin`: what the node in whose place this one is leaves."""
        self.config = self.next = config
        self.kept = kept or {}
        self.controller = controller
        self.admin = admin
        self.health = Health(time.monotonic_ns)
        self.protocols = installed()
        self.parts: dict[str, Part] = {}
        self.own: Part
        self.over = asyncio.Event()
        self._reread = reread or (lambda: config)
        self._switch: ReplicationSwitch | None = None

    @property
    def ports(self) -> Mapping[str, int]:
        """Listener -> port in use."""
        return self.own.ports

    async def start(self) -> None:
        """Bind the ports, make the parts, listen. Raises ConfigError for wrong settings, StoreError when the store fails."""
        config, reread = self.config, self._reread
        try:
            before_cluster = is_rocketmq(config)
            replicated = is_replicated(config) and not before_cluster
            parts = parts_of(config.role_set, replicated)
            room = _divided(config, parts)
            parts = [name for name in parts if not (before_cluster and name == NAMESERVER)]
            config = _without_controller(config)
            for name in (*parts, role_behind(config.role_set, before_cluster)):
                role_named(name)  # imported before a part runs: an import stops the loop
            for name in parts:
                await self._start_part(name, room)
            self.config = config
            own = Part(config, lambda: _without_controller(reread()), self.health, room, self.over.set, self.parts)
            own.make()
            self.own = own
        except BaseException:
            await self._stop_parts(self.over.is_set())
            raise
        waiting_for = WaitingFor.OWN_STORE if self.kept else _waiting_for(config, replicated)
        try:
            own.bind(self.kept)
            admin = self._bind_admin()
            admin.wait(self._waiting_view())
            await own.open(waiting_for)
            replica = self.parts.get(REPLICA)
            replicating = None if replica is None else replica.role
            self._switch = ReplicationSwitch(self.next, own.clock, replicating, self._restart)
            await own.listen(self._switch)
            await admin.serve(self._serving_view(), own.clock, own.clients.context.intake)
        except BaseException:
            own.abandon()
            await self._stop_parts(self.over.is_set())
            if self.admin is not None and not self.over.is_set():
                await self.admin.close()
            own.clock.end()
            raise
        own.begin()
        self.health.phase = SERVING
        if few := lowered(config.connections_max, room, open_files_max()):
            log.warning(few)

    async def _start_part(self, name: str, room: Mapping[str, int]) -> None:
        """Serve the port of a role that is a part of its own, whether or not what is behind the others is there."""
        part = self.controller if name == CONTROLLER else None
        if part is None:
            reread, apart = self._reread, name == CONTROLLER
            # A controller has a health of its own, and goes on when the node is over: that of this node ends with it.
            health, over = (Health(time.monotonic_ns), asyncio.Event()) if apart else (self.health, self.over)
            part = Part(_alone(self.config, name), lambda: _alone(reread(), name), health, room, over.set)
            await part.start()
        if name == CONTROLLER:
            self.controller = part
            self.health.beside = (part.health,)
        self.parts[name] = part

    async def _stop_parts(self, goes_on: bool = False) -> None:
        """Stop the parts. `goes_on`: another node takes the place of this one, and the controller is for that."""
        parts = [part for part in self.parts.values() if part is not self.controller]
        self.parts.clear()
        if not goes_on and self.controller is not None:
            parts.append(self.controller)
            self.controller = None
        for part in parts:
            await part.stop()

    def _restart(self, config: Config) -> None:
        """Replace this node by one with another configuration, behind the same listening sockets."""
        self.next = config
        self.kept = self.own.clients.kept()
        self.over.set()

    def _bind_admin(self) -> AdminServer:
        """Bind the admin port, unless an earlier node did. Raises ConfigError: it is taken."""
        config, name = self.config, ADMIN.name
        if config.tls_only and not is_loopback(config.admin_host):
            log.warning("port %s takes no TLS, whatever tls_only says: let nobody else reach %s", name, config.admin_host)
        if self.admin is None:
            self.admin = AdminServer(bind(name, config.admin_host, config.port(name)))
        self.own.ports[name] = self.admin.bound.getsockname()[1]
        return self.admin

    def lines(self) -> list[tuple[str, str, str]]:
        """(listener, address, description) of every open listener."""
        config, ports = self.config, self.ports
        return [
            (name, endpoint_text(config.admin_host if name == ADMIN.name else config.host, ports[name]), listener.about)
            for name, listener in self.protocols.listeners.items()
            if name in ports
        ]

    def details(self) -> list[tuple[str, str]]:
        """(what, how it is) for the table that is printed at the start."""
        own = [(f"{_PART_NAMES[name]} {what}", how) for name, part in self.parts.items() for what, how in part.role.lines()]
        return [*self.own.role.lines(), *own]

    def snapshot(self) -> Snapshot:
        """The figures of the metrics page, now."""
        return self.own.snapshot(0 if self.admin is None else self.admin.refused)

    def _hosts(self) -> Hosts:
        return Hosts(self.config.part(HttpSettings, "http").hosts, self.config.advertise)

    def _waiting_view(self) -> AdminView:
        """This node, for the admin port, while it does not serve: a replica that follows has metrics."""
        part = self.parts.get(REPLICA)
        if part is None:
            return AdminView(self.health, self._hosts())
        snapshot = partial(part.role.standby_snapshot, [each.role for each in self.parts.values()])
        return AdminView(self.health, self._hosts(), part.role.accesses, snapshot)

    def _serving_view(self) -> AdminView:
        """This node, for the admin port, while it serves. A name server beside a gateway has the backups."""
        own, access = self.own, self.own.side.access
        storing = self.parts.get(NAMESERVER, own).role
        controls = Controls(own.reload.state, own.reload.now, storing.backups, str(own.role.folder))
        trail = AuditTrail(own.clock, self.config.part(AuditSettings, "audit").interval_s)
        guards = () if access is None else (access,)
        return AdminView(self.health, self._hosts(), lambda: guards, self.snapshot, controls, trail.operated)

    async def stop(self, goes_on: bool = False) -> None:
        """Stop accepting, answer commands in flight and parked calls, close all connections, close the store.

        `goes_on`: another node takes the place of this one: `controller` and `admin` stay, and belong to that.
        """
        own = self.own
        self.health.phase = STOPPING
        replica = self.parts.pop(REPLICA, None)
        if self._switch is not None:
            self._switch.stop()
        await own.pause()
        if replica is not None and not self.kept:
            await replica.role.hand_over()
        await self._stop_parts(goes_on)
        await own.drain()
        if self.admin is not None:
            await (self.admin.leave(AdminView(self.health, self._hosts())) if goes_on else self.admin.close())
        await own.close()
        if replica is not None:
            await replica.stop()
        own.clock.end()


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
