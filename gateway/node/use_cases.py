"""The installed use cases, found by the entry points of `gateway.use_cases`: each names a `UseCaseDeclaration`.

A node without one of them refuses its commands with NOT_SUPPORTED, has no table of its settings, and serves the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Protocol

from domain.ports import Clock, Entropy
from domain.store.message_store import MessageStore
from gateway.access.needs import NONE, OWN, CommandNeeds
from gateway.access.path_rights import PathRights
from gateway.connection.handler import Handler
from gateway.guard import writes
from gateway.guard.writes import Writes
from gateway.node.entry_points import load_all
from gateway.node.settings import Config
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase
from gateway.usecase.topics_and_groups.policy import NodePolicy
from protocols.setting import Setting

USE_CASES: Final = "gateway.use_cases"


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCaseContext:
    """The parts of a store side that its use cases are made from.

    rights     who may publish and subscribe on a path
    own_store  False: the store is a cluster of Apache RocketMQ, which keeps no state of ours
    """

    store: MessageStore
    handler: Dispatcher
    policy: NodePolicy
    clock: Clock
    entropy: Entropy
    rights: PathRights
    own_store: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCaseParts:
    """The parts of a declared use case at a store side.

    verbs     their commands become the dispatcher's
    removed   called with the path of each latest value that is removed; None: it is of no interest
    figures   counters by their names on the metrics page
    """

    verbs: Sequence[UseCase] = ()
    removed: Callable[[str], None] | None = None
    figures: Callable[[], dict[str, float]] = dict


class ClientWork(Protocol):
    """Work of a use case in a process that serves clients, from their first connection to the end of the node."""

    def begin(self) -> None:
        """Begin it."""

    def figures(self) -> dict[str, float]:
        """Counters by their names on the metrics page."""

    def pause(self) -> None:
        """Begin nothing more, and end what goes on."""

    async def close(self) -> None:
        """End its connections."""


class ClientExtension(Protocol):
    """The parts of a declared use case at a side that serves clients."""

    def extended(self, setting: Setting) -> Setting:
        """The setting of the protocols' adapters, with what the use case gives them."""

    def work(self, gate: Handler) -> ClientWork | None:
        """Its work, as a client of `gate`; None: this process has none. Raises ConfigError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCaseDeclaration:
    """The parts of an installed use case.

    make        its parts at a store side
    client      its parts at a side that serves clients; None: it has none
    sinks       the most connections that it makes to others, by the number of file descriptors
    """

    make: Callable[[UseCaseContext], UseCaseParts]
    client: Callable[[Config, Clock], ClientExtension] | None = None
    tables: Mapping[str, type] = field(default_factory=dict)
    needs: CommandNeeds = NONE
    writes: Writes = writes.NONE
    sinks: Callable[[Config, int], int] = lambda config, descriptors: 0


@cache
def installed_use_cases() -> Mapping[str, UseCaseDeclaration]:
    """Name -> declaration, by name. Raises ConfigError: one of them cannot be imported."""
    return load_all(USE_CASES, lambda name: f"use case {name!r} cannot be loaded")


@cache
def all_needs() -> CommandNeeds:
    """What the commands of this node need, those of installed use cases too."""
    declared = [each.needs for each in installed_use_cases().values()]
    table = {kind: needs for each in (OWN, *declared) for kind, needs in each.table.items()}
    return CommandNeeds(table, OWN.silent.union(*(each.silent for each in declared)))


@cache
def all_writes() -> Writes:
    """The commands of this node that write to the log, those of installed use cases too."""
    return writes.together([writes.OWN, *(each.writes for each in installed_use_cases().values())])
