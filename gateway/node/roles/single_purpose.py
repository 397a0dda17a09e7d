"""A process that has one role and no store for messages: what name servers and controllers have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from domain.store.backup import Backups
from domain.store.message_store import MessageStore
from gateway.access.administration import Administration
from gateway.access.bootstrap import open_access
from gateway.node.client_side import (
    ClientPlace,
    ClientSide,
    ClientUsers,
    CommandPath,
    access_of,
    counters_of,
    gate_before,
    make_client_side,
    trail_of,
)
from gateway.node.composition import StorePlace, open_store
from gateway.node.roles.installed_roles import RoleContext
from gateway.node.roles.local_store import LocalStore, backups_of
from gateway.node.roles.role import Role
from gateway.node.settings import refuse_exposed
from gateway.observe.metrics import Snapshot
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.machine import hot_bytes
from gateway.usecase.allowed_commands import AllowedCommands
from gateway.usecase.handler import UseCase


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePurposeSide(ClientSide):
    """Client side of such a process.

    store   has users and policies, and what a name server keeps
    """

    store: MessageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePurposePlace(ClientPlace):
    """The environment of such a process, with its data directory."""

    directory: StorePlace

    def open_store(self) -> MessageStore:
        """Open the store of users and policies. Raises ConfigError and StoreError."""
        return open_store(self, self.directory)

    def side(
        self, store: MessageStore, refused: str, use_case: UseCase, *, is_controller: bool = False, is_replica: bool = False
    ) -> SinglePurposeSide:
        """What serves clients: `use_case` and the users in `store`; other commands are refused with `refused`.

        Raises ConfigError.
        """
        config, clock = self.config, self.clock
        records, access = open_access(
            access_of(config), config.admin, config.controlled, store.state, clock.wall_ms, config.cluster
        )
        verbs = AllowedCommands(refused, use_case, Administration(records), audited=trail_of(self).verb)
        gate = gate_before(verbs, access, clock)
        place = replace(self, is_controller=is_controller, is_replica=is_replica)
        kind = partial(SinglePurposeSide, store=store)
        return make_client_side(place, kind, CommandPath(place, gate), ClientUsers(records, access))


class SinglePurposeRole(Role):
    """The part of a role that is the same in each such process.

    side     what serves clients; once opened
    """

    def __init__(self, context: RoleContext) -> None:
        """Lock the data directory. Raises ConfigError when others reach it without control, StoreError when it is in use."""
        config = self.config = context.config
        if not config.controlled:
            refuse_exposed(config)
        self.side: SinglePurposeSide
        self._clock = context.clock
        self._health = context.health
        self._protocols = context.protocols
        self._local = LocalStore(config.data, context.health, config.durability)
        self.folder = self._local.disk.path

    @property
    def client_side(self) -> ClientSide:
        """What serves clients."""
        return self.side

    @property
    def backups(self) -> Backups | None:
        """Backups of the store; None when its engine has none."""
        return backups_of(self.side.store)

    async def open(self, ports: Mapping[str, int], host: str) -> None:
        """Open the store, and make the parts. Raises ConfigError for wrong settings, StoreError when the store fails."""
        local = self._local
        place = SinglePurposePlace(
            config=self.config, ports=ports, host=host, broker=self.config.broker, clock=self._clock,
            entropy=SystemEntropy(), protocols=self._protocols,
            counters=counters_of(self._protocols, self._clock),
            directory=StorePlace(local.disk, hot_bytes(), local.report),
        )  # fmt: skip
        self.side = local.opened(lambda: self.made(place))

    def made(self, place: SinglePurposePlace) -> SinglePurposeSide:
        """Make the parts of the role. Raises ConfigError and StoreError."""
        raise NotImplementedError

    def counters(self) -> dict[str, float]:
        """The role's own metrics."""
        raise NotImplementedError

    def unfinished_bytes(self) -> int:
        """Bytes of keys and users that are not stored yet."""
        return self.side.store.unanswered_bytes()

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Add the role's own metrics, and what the store knows where no other role of the process has one."""
        store = self.side.store
        return dataclasses.replace(
            snapshot,
            store=snapshot.store or store.figures(),
            counters={**snapshot.counters, **self.counters()},
            histograms={**store.histograms(), **snapshot.histograms},
        )

    async def settled(self) -> None:
        """Wait until the keys and users that were put are answered."""
        await self._local.settled(self.side.store)

    async def close(self) -> None:
        """Close the store and the data directory."""
        await self._local.close(self.side.store)

    def abandon(self) -> None:
        """Unlock the data directory."""
        self._local.disk.close()
