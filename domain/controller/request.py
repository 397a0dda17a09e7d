"""Requests of brokers and tools to a controller, and its answers. `ticket` belongs to the adapter, as in `domain/command.py`.

Only the controller that leads serves them, except QueryControllers and the settings: another one answers NOT_LEADING. Any of
them may be refused as `domain/command.py` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from domain.command import Command
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import GroupChange
from domain.controller.group import ReplicaReport, StoreGroup
from domain.controller.health import ReplicaFigures
from domain.event import Event


@dataclass(slots=True)
class ChangeGroup(Command):
    """Make a change of a store group -> GroupChanged, when the change is committed.

    change   as the client asked for it: the controller adds who is alive before it replicates it
    """

    ticket: object
    change: GroupChange


@dataclass(slots=True)
class GroupChanged(Event):
    """The answer to ChangeGroup.

    alive   replicas of the group that are alive, as far as the controller has heard
    """

    ticket: object
    answer: GroupAnswer
    alive: frozenset[int] = frozenset()


@dataclass(slots=True)
class QueryGroups(Command):
    """What is known of these store groups -> GroupsFound."""

    ticket: object
    groups: Sequence[str]


@dataclass(slots=True)
class GroupsFound(Event):
    """The answer to QueryGroups.

    refusal   None, or NOT_LEADING
    groups    in the order in which they were asked for, those that are known: each with its replicas that are alive
    """

    ticket: object
    refusal: GroupRefusal | None
    groups: Sequence[tuple[StoreGroup, frozenset[int]]]


@dataclass(slots=True)
class QueryControllers(Command):
    """Who the controllers are -> ControllersFound. Every controller answers it."""

    ticket: object


@dataclass(slots=True)
class ControllersFound(Event):
    """The answer to QueryControllers.

    group      name of the raft group
    leader     id of the controller that leads, "": unknown
    is_leader  True: it is the one that answers
    peers      id -> host:port that brokers and tools ask, of all controllers
    """

    ticket: object
    group: str
    leader: str
    is_leader: bool
    peers: Mapping[str, str]


@dataclass(slots=True)
class HearReplica(Command):
    """A heartbeat of a replica -> Done. Every controller keeps it for itself.

    group        store group
    report       what the replica says of itself
    timeout_ms   for how long it counts as alive; 0: as long as usual
    figures    what it has measured since its last heartbeat; None: it does not measure
    """

    ticket: object
    group: str
    report: ReplicaReport
    timeout_ms: int
    figures: ReplicaFigures | None = None


@dataclass(slots=True)
class QueryControllerSettings(Command):
    """The settings of this controller that can be changed while it runs -> ControllerSettingsFound."""

    ticket: object


@dataclass(slots=True)
class ControllerSettingsFound(Event):
    """The answer to QueryControllerSettings: name -> value."""

    ticket: object
    values: Mapping[str, str]


@dataclass(slots=True)
class ChangeControllerSettings(Command):
    """Change settings of this controller until it ends -> Done. Refused: none of them was changed.

    Errors: ARGUMENT_ILLEGAL.
    """

    ticket: object
    values: Mapping[str, str]
