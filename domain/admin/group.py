"""What can be asked of consumer groups, and the answers: configuration, what a group may read, and how it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.command import Command
from domain.event import Event
from domain.topic import Group


@dataclass(slots=True)
class QueryGroup(Command):
    """Configuration of a group, created by policy -> GroupFound."""

    ticket: object
    group: str


@dataclass(slots=True)
class GroupFound(Event):
    """A consumer group."""

    ticket: object
    group: Group


@dataclass(slots=True)
class ListGroups(Command):
    """All groups -> GroupList."""

    ticket: object


@dataclass(slots=True)
class GroupList(Event):
    """All consumer groups, by name; `forbidden`: group -> topics that it may not read."""

    ticket: object
    groups: list[Group]
    forbidden: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class PutGroup(Command):
    """Create or change a group -> Done. Refused GROUP_ILLEGAL, ARGUMENT_ILLEGAL.

    Attributes that the group has and the command does not name stay; `-key` drops one (domain.attribute).
    """

    ticket: object
    group: Group


@dataclass(slots=True)
class DeleteGroup(Command):
    """Delete a group, its positions and its leases -> Done."""

    ticket: object
    group: str


@dataclass(slots=True)
class SetReadable(Command):
    """Whether a group may read a topic (RocketMQ code 353); None leaves it as it is -> Readable.

    Refused GROUP_NOT_FOUND, TOPIC_NOT_FOUND where it is to be forbidden.
    """

    ticket: object
    group: str
    topic: str
    readable: bool | None = None


@dataclass(slots=True)
class Readable(Event):
    """As it is from now on."""

    ticket: object
    readable: bool


@dataclass(slots=True)
class SetRequestMode(Command):
    """How members of `group` consume `topic`: PULL or POP (RocketMQ code 401) -> Done.

    Refused TOPIC_NOT_FOUND, GROUP_NOT_FOUND, and NOT_ALLOWED for retry topics.
    """

    ticket: object
    group: str
    topic: str
    mode: str
    pop_share_queues: int = 0


@dataclass(slots=True)
class QueryRequestMode(Command):
    """The mode set by SetRequestMode, PULL when none -> RequestMode."""

    ticket: object
    group: str
    topic: str


@dataclass(slots=True)
class RequestMode(Event):
    """PULL or POP, and over how many neighbours POP queues are shared."""

    ticket: object
    mode: str
    pop_share_queues: int


@dataclass(slots=True)
class ListRequestModes(Command):
    """Which groups consume which topics by POP or by PULL, as far as somebody has said -> RequestModeList."""

    ticket: object


@dataclass(slots=True)
class RequestModeList(Event):
    """(topic, group, mode, how many other members' queues each has besides)."""

    ticket: object
    modes: list[tuple[str, str, str, int]]


@dataclass(slots=True)
class QueryConsumedTopics(Command):
    """Topics that a group subscribes now, or has a position on -> ConsumedTopics. GROUP_NOT_FOUND."""

    ticket: object
    group: str


@dataclass(slots=True)
class ConsumedTopics(Event):
    """Names of topics, sorted."""

    ticket: object
    topics: list[str]


@dataclass(slots=True)
class CountWaitingMessages(Command):
    """How many receives of a group wait for messages of one queue, -1 those that wait for any -> Waiting.

    TOPIC_NOT_FOUND, QUEUE_ILLEGAL, NOT_ALLOWED.
    """

    ticket: object
    group: str
    topic: str
    queue_id: int


@dataclass(slots=True)
class WaitingCount(Event):
    """At this moment."""

    ticket: object
    count: int
