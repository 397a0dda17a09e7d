"""The role nameserver without any other: it knows the brokers that register with it, and tells their routes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import final

from domain.backup import Backups
from domain.errors import Failure
from domain.ports import Clock
from gateway.node.client_side import ClientSide
from gateway.node.config import Config, refuse_exposed
from gateway.node.local_store import LocalStore, backups_of
from gateway.node.nameserver.composition import NameserverParts, compose_nameserver
from gateway.node.protocols import Protocols
from gateway.node.role import EndClients, OpenPort
from gateway.observe.health import Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.memory import hot_bytes


@final
class NameserverRole:
    """`gateway.node.role.Role` of a process that is a name server alone.

    parts   the composed name server; once opened
    """

    def __init__(self, config: Config, clock: Clock, health: Health, protocols: Protocols) -> None:
        """Lock the data directory. Raises ConfigError when others reach it without control, StoreError when it is in use."""
        if not config.controlled:
            refuse_exposed(config)
        self.parts: NameserverParts
        self._config = config
        self._clock = clock
        self._protocols = protocols
        self._local = LocalStore(config.data, health)
        self.folder = self._local.disk.path

    @property
    def client_side(self) -> ClientSide:
        """The composed name server."""
        return self.parts

    @property
    def backups(self) -> Backups | None:
        """Backups of the store with the keys and users; None when its engine has none."""
        return backups_of(self.parts.store)

    async def open(self, ports: Mapping[str, int], host: str) -> None:
        """Open the store. Raises ConfigError for wrong settings, StoreError when the store fails."""
        local = self._local
        self.parts = local.opened(
            lambda: compose_nameserver(
                self._config, ports, host, local.disk, self._clock, SystemEntropy(), hot_bytes(), self._protocols, local.report
            )
        )

    def begin(self, now_ns: int, end_clients: EndClients, open_port: OpenPort) -> None:
        """Nothing: routes come from brokers."""

    def unfinished_bytes(self) -> int:
        """Bytes of keys that are not stored yet."""
        return self.parts.store.unanswered_bytes()

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Add what the store knows, and how many brokers and routes there are."""
        store, routes = self.parts.store, self.parts.routes
        counters = {"nameserver_brokers": routes.broker_count, "nameserver_routes": routes.route_count}
        return dataclasses.replace(
            snapshot,
            store=store.figures(),
            counters={**snapshot.counters, **counters},
            histograms={**store.histograms(), **snapshot.histograms},
        )

    def lines(self) -> list[tuple[str, str]]:
        """Users and the folder."""
        access = self.parts.access
        who = "everybody who reaches a port" if access is None else f"controlled, {len(access.records.users)} users"
        return [("access", who), ("data", f"{self._config.data}: keys and users; brokers register again after a start")]

    def pause(self) -> None:
        """Nothing: a name server does nothing by itself."""

    async def settled(self) -> None:
        """Wait until the keys that were put are answered."""
        await self._local.settled(self.parts.store)

    def refuse_waiting(self, failure: Failure) -> None:
        """Nothing: no call waits."""

    async def close(self) -> None:
        """Close the store and the data directory."""
        await self._local.close(self.parts.store)

    def abandon(self) -> None:
        """Unlock the data directory."""
        self._local.disk.close()
