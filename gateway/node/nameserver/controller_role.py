"""The role controller: it elects the leaders of store groups, together with the other controllers."""

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
from gateway.node.nameserver.controller_composition import ControllerParts, compose_controller
from gateway.node.protocols import Protocols
from gateway.node.role import EndClients, OpenPort
from gateway.observe.health import Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.memory import hot_bytes


@final
class ControllerRole:
    """`gateway.node.role.Role` of a process that is a controller.

    parts   the composed controller; once opened
    """

    def __init__(self, config: Config, clock: Clock, health: Health, protocols: Protocols) -> None:
        """Lock the data directory. Raises ConfigError when others reach it without control, StoreError when it is in use."""
        if not config.controlled:
            refuse_exposed(config)
        self.parts: ControllerParts
        self._config = config
        self._clock = clock
        self._protocols = protocols
        self._local = LocalStore(config.data, health)
        self.folder = self._local.disk.path

    @property
    def client_side(self) -> ClientSide:
        """The composed controller."""
        return self.parts

    @property
    def backups(self) -> Backups | None:
        """Backups of the store with the users; None when its engine has none."""
        return backups_of(self.parts.store)

    async def open(self, ports: Mapping[str, int], host: str) -> None:
        """Open the store. Raises ConfigError for wrong settings, StoreError when the store fails."""
        local = self._local
        self.parts = local.opened(
            lambda: compose_controller(
                self._config, ports, host, local.disk, self._clock, SystemEntropy(), hot_bytes(), self._protocols, local.report
            )
        )

    def begin(self, now_ns: int, end_clients: EndClients, open_port: OpenPort) -> None:
        """Take part in the group."""
        self.parts.joining.start()

    def unfinished_bytes(self) -> int:
        """Bytes of users that are not stored yet."""
        return self.parts.store.unanswered_bytes()

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Add what the store knows, and what this controller does."""
        store, member = self.parts.store, self.parts.controlling.member
        counters: dict[str, float] = {"controller_in_group": 0, "controller_leads": 0}
        if member is not None:
            counters = {
                "controller_in_group": int(not member.failure),
                "controller_leads": int(member.leads),
                "controller_term": member.term,
                "controller_members": len(member.members),
                "controller_store_groups": len(member.groups),
                "controller_messages_unread_total": member.unread,
            }
        return dataclasses.replace(
            snapshot,
            store=store.figures(),
            counters={**snapshot.counters, **counters},
            histograms={**store.histograms(), **snapshot.histograms},
        )

    def lines(self) -> list[tuple[str, str]]:
        """Users, the group and the folder."""
        access = self.parts.access
        who = "everybody who reaches a port" if access is None else f"controlled, {len(access.records.users)} users"
        identity = self.parts.links.founding.identity
        group = (
            f"founded by {len(identity.founders)} controllers" if identity.founders else "waits for all controllers to answer"
        )
        return [
            ("access", who),
            ("group", group),
            ("data", f"{self._config.data}: what the controllers have decided, and users"),
        ]

    def pause(self) -> None:
        """Nothing: the others elect another when this one is gone."""

    async def settled(self) -> None:
        """Wait until the users that were put are answered."""
        await self._local.settled(self.parts.store)

    def refuse_waiting(self, failure: Failure) -> None:
        """Nothing: no call waits for messages."""

    async def close(self) -> None:
        """Leave the group; close the store and the data directory."""
        controlling = self.parts.controlling
        if controlling.elections is not None:
            controlling.elections.stop()
        if controlling.member is not None:
            controlling.member.stop()
        self.parts.links.close()
        await self._local.close(self.parts.store)

    def abandon(self) -> None:
        """Unlock the data directory."""
        self._local.disk.close()
