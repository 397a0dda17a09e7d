"""Requests of brokers and tools to a controller, and its answers. `ticket` belongs to the adapter, as in `domain/command.py`.

Only the controller that leads serves them, except QueryControllers and the settings: another one answers NOT_LEADING. Any of
them may be refused as `domain/command.py` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from domain.command import TicketedCommand
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import GroupChange
from domain.controller.gateway_search import GatewaySearch
from domain.controller.group import ReplicaReport, StoreGroup
from domain.controller.health import FIT, ReplicaFigures, Standing
from domain.controller.replica_word import ReplicaWord
from domain.event import TicketedEvent

GROUPS_LISTED_MAX: Final = 32
"""Store groups in one answer to ListStoreGroups."""


@dataclass(slots=True)
class ChangeGroup(TicketedCommand):
    """Make a change of a store group -> GroupChanged, when the change is committed.

    change   as the client asked for it: the controller adds who is alive before it replicates it
    """

    change: GroupChange


@dataclass(slots=True)
class GroupChanged(TicketedEvent):
    """The answer to ChangeGroup.

    alive   replicas of the group that are alive, as far as the controller knows
    """

    answer: GroupAnswer
    alive: frozenset[int] = frozenset()


@dataclass(slots=True)
class QueryGroups(TicketedCommand):
    """Query these store groups -> GroupsFound."""

    groups: Sequence[str]


@dataclass(slots=True)
class GroupsFound(TicketedEvent):
    """The answer to QueryGroups.

    refusal   None, or NOT_LEADING
    groups    in the order in which they were asked for, those that are known: each with its replicas that are alive
    """

    refusal: GroupRefusal | None
    groups: Sequence[tuple[StoreGroup, frozenset[int]]]


@dataclass(frozen=True, slots=True)
class ReplicaHeard:
    """Last heartbeat of a replica at the controller that leads.

    word       what it says; its figures are the last ones that it has reported
    age_ms     milliseconds since the heartbeat; -1: its connection has ended
    alive      True: it counts as alive
    standing   judgement of the controller on its fitness to lead
    """

    word: ReplicaWord
    age_ms: int
    alive: bool
    standing: Standing = FIT

    @property
    def report(self) -> ReplicaReport:
        """Its log, and what it is in the group."""
        return self.word.report

    def judged(self, standing: Standing, figures: ReplicaFigures | None) -> ReplicaHeard:
        """The same with the judgement of a controller, and the last figures that the replica has reported."""
        return replace(self, word=self.word._replace(figures=figures), standing=standing)


@dataclass(slots=True)
class ListStoreGroups(TicketedCommand):
    """Store groups in the order of their names, GROUPS_LISTED_MAX of them at most -> StoreGroupsListed.

    after     names behind this one; "": all
    names     those of these names; empty: all
    identity  identity of the store group of the log of a replica that asks; "": it has none, or a tool asks
    """

    after: str = ""
    names: Sequence[str] = ()
    identity: str = ""


@dataclass(slots=True)
class StoreGroupsListed(TicketedEvent):
    """The answer to ListStoreGroups.

    refusal   None, or NOT_LEADING
    groups    each with the last reports of its replicas
    more      True: further groups follow after the last one
    """

    refusal: GroupRefusal | None
    groups: Sequence[tuple[StoreGroup, Sequence[ReplicaHeard]]]
    more: bool = False


@dataclass(slots=True)
class QueryController(TicketedCommand):
    """Query the state of this controller -> ControllerFound. Every controller answers it."""


class StrangerSeen(NamedTuple):
    """A process that this controller has refused, since it is of another store group or a second one of a replica.

    group    name of the store group that it claims
    where    its address, as far as it is known
    why      reason of the refusal, for people
    age_ms   milliseconds since the last refusal
    """

    group: str
    where: str
    why: str
    age_ms: int


class GatewayMissed(NamedTuple):
    """A gateway that was connected to a leader of a store group, and does not reach the one that there is now.

    group    name of the store group
    name     its host, for people
    age_ms   milliseconds since it was last known to be connected
    """

    group: str
    name: str
    age_ms: int


@dataclass(slots=True)
class ControllerFound(TicketedEvent):
    """The answer to QueryController.

    node      identity of its log
    term      the newest term that it knows; 0 before its group is known
    leads     True: it leads, as far as it knows
    leader    identity of the controller that leads; 0: unknown
    voters    identities of those who vote
    learners  identities of those who only get the log
    places    identity -> host:port at which it answers, of those that this one reaches
    failure   why it takes part in nothing; "": it takes part, or waits for its group
    book      host:port of all controllers, as it knows them
    changing  the change of members that is under way, for people; "": none is
    strangers processes that it has refused a short time ago
    gateways  gateways that do not reach the leader of their store group
    searching gateways that say that they have no store
    """

    node: int
    term: int
    leads: bool
    leader: int
    voters: Sequence[int]
    learners: Sequence[int]
    places: Mapping[int, str]
    failure: str
    book: Sequence[str] = ()
    changing: str = ""
    strangers: Sequence[StrangerSeen] = ()
    gateways: Sequence[GatewayMissed] = ()
    searching: Sequence[GatewaySearch] = ()


@dataclass(slots=True)
class QueryControllers(TicketedCommand):
    """Query the list of the controllers -> ControllersFound. Every controller answers it."""


@dataclass(slots=True)
class ControllersFound(TicketedEvent):
    """The answer to QueryControllers.

    leader     id of the controller that leads, "": unknown
    is_leader  True: it is the one that answers
    peers      id -> host:port that brokers and tools ask, of all controllers
    """

    group: str
    leader: str
    is_leader: bool
    peers: Mapping[str, str]


@dataclass(slots=True)
class HearReplica(TicketedCommand):
    """A heartbeat of a replica -> Done. Every controller keeps it for itself.

    timeout_ms   for how long it counts as alive; 0: as long as usual
    """

    group: str
    word: ReplicaWord
    timeout_ms: int


@dataclass(slots=True)
class QueryControllerSettings(TicketedCommand):
    """The settings of this controller that can be changed while it runs -> ControllerSettingsFound."""


@dataclass(slots=True)
class ControllerSettingsFound(TicketedEvent):
    """The answer to QueryControllerSettings: name -> value."""

    values: Mapping[str, str]


@dataclass(slots=True)
class ChangeControllerSettings(TicketedCommand):
    """Change settings of this controller until it ends -> Done. Refused: none of them was changed.

    Errors: ARGUMENT_ILLEGAL.
    """

    values: Mapping[str, str]
