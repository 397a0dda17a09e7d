"""Queries and changes of consumer groups, and their answers: configuration, read permissions, and request modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.command import Command
from domain.event import Event
from domain.topic import Group


@dataclass(slots=True)
class QueryGroup(Command):
    """Configuration of a group, which is created if the node's policy allows that -> GroupFound.

    Errors: GROUP_ILLEGAL, GROUP_NOT_FOUND.
    """

    ticket: object
    group: str


@dataclass(slots=True)
class FindGroup(Command):
    """Configuration of a group that exists -> GroupFound. Errors: GROUP_NOT_FOUND."""

    ticket: object
    group: str


@dataclass(slots=True)
class GroupFound(Event):
    """One consumer group."""

    ticket: object
    group: Group


@dataclass(slots=True)
class ListGroups(Command):
    """All consumer groups -> GroupList."""

    ticket: object


@dataclass(slots=True)
class GroupList(Event):
    """Consumer groups by name.

    forbidden   group -> topics that it may not read (SetReadable)
    """

    ticket: object
    groups: list[Group]
    forbidden: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class PutGroup(Command):
    """Create or change a group -> Done (RocketMQ code 200).

    Attributes that the group has and the command does not name stay; `-key` drops one (domain.attribute).
    Errors: GROUP_ILLEGAL, ARGUMENT_ILLEGAL.
    """

    ticket: object
    group: Group


@dataclass(slots=True)
class DeleteGroup(Command):
    """Delete a group, its positions and its leases -> Done (RocketMQ code 207). Errors: GROUP_NOT_FOUND."""

    ticket: object
    group: str


@dataclass(slots=True)
class SetReadable(Command):
    """Allow or forbid a group to read a topic -> Readable (RocketMQ code 353).

    readable   None: change nothing, only answer

    Errors: GROUP_NOT_FOUND, TOPIC_NOT_FOUND (only when it is to be forbidden).
    """

    ticket: object
    group: str
    topic: str
    readable: bool | None = None


@dataclass(slots=True)
class Readable(Event):
    """Read permission of a group on a topic, after the command."""

    ticket: object
    readable: bool


@dataclass(slots=True)
class SetRequestMode(Command):
    """Set how the members of a group consume a topic -> Done (RocketMQ code 401).

    mode               PULL or POP
    pop_share_queues   with POP: how many other members' queues each member receives from besides its own

    Errors: ARGUMENT_ILLEGAL, TOPIC_NOT_FOUND, GROUP_NOT_FOUND, NOT_ALLOWED (retry topics).
    """

    ticket: object
    group: str
    topic: str
    mode: str
    pop_share_queues: int = 0


@dataclass(slots=True)
class QueryRequestMode(Command):
    """The mode set by SetRequestMode, PULL if none is set -> RequestMode."""

    ticket: object
    group: str
    topic: str


@dataclass(slots=True)
class RequestMode(Event):
    """Request mode of the members of a group on a topic; fields as in SetRequestMode."""

    ticket: object
    mode: str
    pop_share_queues: int


@dataclass(slots=True)
class ListRequestModes(Command):
    """All modes that SetRequestMode has set -> RequestModeList (RocketMQ code 402)."""

    ticket: object


@dataclass(slots=True)
class RequestModeList(Event):
    """Modes that are set.

    modes   (topic, group, mode, pop_share_queues)
    """

    ticket: object
    modes: list[tuple[str, str, str, int]]


@dataclass(slots=True)
class QueryConsumedTopics(Command):
    """Topics that a group subscribes or has a position on -> ConsumedTopics (RocketMQ code 343). Errors: GROUP_NOT_FOUND."""

    ticket: object
    group: str


@dataclass(slots=True)
class ConsumedTopics(Event):
    """Names of topics, sorted."""

    ticket: object
    topics: list[str]


@dataclass(slots=True)
class CountWaitingMessages(Command):
    """Query the number of Receives of a group that are held for one queue -> WaitingCount (RocketMQ code 200055).

    queue_id   -1: Receives that are held for any queue

    Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL, NOT_ALLOWED.
    """

    ticket: object
    group: str
    topic: str
    queue_id: int


@dataclass(slots=True)
class WaitingCount(Event):
    """Receives that are held now."""

    ticket: object
    count: int


@dataclass(slots=True)
class RedriveGroup(Command):
    """Give dead letters of a group, those of its topic `%DLQ%group`, to this group again -> domain.admin.subscription.Redriven.

    limit   dead letters at most, to 10,000

    Those that an earlier call has given are not given again. Errors: GROUP_NOT_FOUND, CHANGED (another redrive is under way),
    NOT_SUPPORTED (lite topics, and clusters of Apache RocketMQ).
    """

    ticket: object
    group: str
    limit: int = 1_000
