"""Queries and changes of consumer groups, and their answers: configuration, read permissions, and request modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.command import TicketedCommand
from domain.event import TicketedEvent
from domain.topic.topic import Group


@dataclass(slots=True)
class QueryGroup(TicketedCommand):
    """Configuration of a group, which is created if the node's policy allows that -> GroupFound.

    Errors: GROUP_ILLEGAL, GROUP_NOT_FOUND.
    """

    group: str


@dataclass(slots=True)
class FindGroup(TicketedCommand):
    """Configuration of a group that exists -> GroupFound. Errors: GROUP_NOT_FOUND."""

    group: str


@dataclass(slots=True)
class GroupFound(TicketedEvent):
    """One consumer group."""

    group: Group


@dataclass(slots=True)
class ListGroups(TicketedCommand):
    """Consumer groups by name -> GroupList. A store's node of an earlier version answers with all: `GroupList.page`
    takes those that were asked for.

    after   begin behind this name; "": with the first one
    limit   groups at most; 0: all
    """

    after: str = ""
    limit: int = 0


@dataclass(slots=True)
class GroupList(TicketedEvent):
    """Consumer groups by name.

    forbidden   group -> topics that it may not read (SetReadable)
    """

    groups: list[Group]
    forbidden: Mapping[str, list[str]] = field(default_factory=dict)

    def page(self, after: str, limit: int) -> list[Group]:
        """At most `limit` of the groups, from the one behind `after` on."""
        return [each for each in self.groups if each.name > after][:limit]


@dataclass(slots=True)
class PutGroup(TicketedCommand):
    """Create or change a group -> Done (RocketMQ code 200).

    Attributes that the group has and the command does not name stay; `-key` drops one (domain.topic.attribute).
    Errors: GROUP_ILLEGAL, ARGUMENT_ILLEGAL.
    """

    group: Group


@dataclass(slots=True)
class DeleteGroup(TicketedCommand):
    """Delete a group, its positions and its leases -> Done (RocketMQ code 207). Errors: GROUP_NOT_FOUND."""

    group: str


@dataclass(slots=True)
class SetReadable(TicketedCommand):
    """Allow or forbid a group to read a topic -> Readable (RocketMQ code 353).

    readable   None: change nothing, only answer

    Errors: GROUP_NOT_FOUND, TOPIC_NOT_FOUND (only when it is to be forbidden).
    """

    group: str
    topic: str
    readable: bool | None = None


@dataclass(slots=True)
class Readable(TicketedEvent):
    """Read permission of a group on a topic, after the command."""

    readable: bool


@dataclass(slots=True)
class SetRequestMode(TicketedCommand):
    """Set how the members of a group consume a topic -> Done (RocketMQ code 401).

    mode               PULL or POP
    pop_share_queues   with POP: how many other members' queues each member receives from besides its own

    Errors: ARGUMENT_ILLEGAL, TOPIC_NOT_FOUND, GROUP_NOT_FOUND, NOT_ALLOWED (retry topics).
    """

    group: str
    topic: str
    mode: str
    pop_share_queues: int = 0


@dataclass(slots=True)
class QueryRequestMode(TicketedCommand):
    """The mode set by SetRequestMode, PULL if none is set -> RequestMode."""

    group: str
    topic: str


@dataclass(slots=True)
class RequestMode(TicketedEvent):
    """Request mode of the members of a group on a topic; fields as in SetRequestMode."""

    mode: str
    pop_share_queues: int


@dataclass(slots=True)
class ListRequestModes(TicketedCommand):
    """All modes that SetRequestMode has set -> RequestModeList (RocketMQ code 402)."""


@dataclass(slots=True)
class RequestModeList(TicketedEvent):
    """Modes that are set.

    modes   (topic, group, mode, pop_share_queues)
    """

    modes: list[tuple[str, str, str, int]]


@dataclass(slots=True)
class QueryConsumedTopics(TicketedCommand):
    """Topics that a group subscribes or has a position on -> ConsumedTopics (RocketMQ code 343). Errors: GROUP_NOT_FOUND."""

    group: str


@dataclass(slots=True)
class ConsumedTopics(TicketedEvent):
    """Names of topics, sorted."""

    topics: list[str]


@dataclass(slots=True)
class CountWaitingMessages(TicketedCommand):
    """Query the number of Receives of a group that are held for one queue -> WaitingCount (RocketMQ code 200055).

    queue_id   -1: Receives that are held for any queue

    Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL, NOT_ALLOWED.
    """

    group: str
    topic: str
    queue_id: int


@dataclass(slots=True)
class WaitingCount(TicketedEvent):
    """Receives that are held now."""

    count: int


@dataclass(slots=True)
class RedriveGroup(TicketedCommand):
    """Give dead letters of a group, those of its topic `%DLQ%group`, to this group again -> domain.admin.subscription.Redriven.

    limit   dead letters at most, to 10,000

    Those that an earlier call has given are not given again. Errors: GROUP_NOT_FOUND, CHANGED (another redrive is under way),
    NOT_SUPPORTED (lite topics, and clusters of Apache RocketMQ).
    """

    group: str
    limit: int = 1_000
