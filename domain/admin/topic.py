"""What can be asked of topics, and the answers: configuration, queues, and who consumes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from domain.command import Command
from domain.event import Event
from domain.topic import Topic


@dataclass(slots=True)
class QueryTopic(Command):
    """Configuration and route of a topic -> TopicFound; Refused TOPIC_NOT_FOUND.

    create=True: make it first by the node's policy (what a protocol does whose clients do not ask for topics beforehand).
    """

    ticket: object
    topic: str
    create: bool = False


@dataclass(slots=True)
class TopicFound(Event):
    """A topic and the broker that serves it."""

    ticket: object
    topic: Topic


@dataclass(slots=True)
class ListTopics(Command):
    """All topics -> TopicList."""

    ticket: object


@dataclass(slots=True)
class TopicList(Event):
    """All topics, by name."""

    ticket: object
    topics: list[Topic]


@dataclass(slots=True)
class PutTopic(Command):
    """Create or change a topic -> Done. Refused TOPIC_ILLEGAL, ARGUMENT_ILLEGAL."""

    ticket: object
    topic: Topic


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The shape of a topic, and which attributes to set and to drop; other attributes stay as they are.

    The attributes `message.type` and `durability` are the topic's type and durability; the rest are kept as text.
    """

    name: str
    read_queues: int
    write_queues: int
    perm: int
    order: bool = False
    sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()


@dataclass(slots=True)
class ChangeTopic(Command):
    """Create or change a topic -> Done. Refused TOPIC_ILLEGAL, ARGUMENT_ILLEGAL."""

    ticket: object
    change: TopicChange


@dataclass(slots=True)
class DeleteTopic(Command):
    """Delete a topic and its messages -> Done; Refused TOPIC_NOT_FOUND."""

    ticket: object
    topic: str


@dataclass(slots=True)
class QueryBounds(Command):
    """First and next offset of queues -> Bounds. `queue_id` -1: all queues of the topic."""

    ticket: object
    topic: str
    queue_id: int = -1


@dataclass(slots=True)
class Bounds(Event):
    """(queue id, first offset, next offset) a queue."""

    ticket: object
    queues: list[tuple[int, int, int]]


@dataclass(slots=True)
class SearchOffset(Command):
    """First offset stored at or after `timestamp_ms` (upper=True: last at or before) -> Offset."""

    ticket: object
    topic: str
    queue_id: int
    timestamp_ms: int
    upper: bool = False


@dataclass(slots=True)
class QueryEarliestStoreTime(Command):
    """When the first message that a queue still has was stored -> EarliestStoreTime. Refused TOPIC_NOT_FOUND, QUEUE_ILLEGAL."""

    ticket: object
    topic: str
    queue_id: int


@dataclass(slots=True)
class EarliestStoreTime(Event):
    """Epoch milliseconds, -1 for an empty queue."""

    ticket: object
    store_ms: int


@dataclass(slots=True)
class QueryTopicState(Command):
    """Bounds of a topic's queues and when each was written last -> TopicState. TOPIC_NOT_FOUND."""

    ticket: object
    topic: str


@dataclass(slots=True)
class TopicState(Event):
    """(queue id, first offset, next offset, store time of the last message or -1) a queue; `per_second` of the last minute."""

    ticket: object
    queues: list[tuple[int, int, int, int]]
    per_second: float


@dataclass(slots=True)
class QueryConsumers(Command):
    """Groups that consume `topic`: with a member that subscribes it now, or with a position -> ConsumersFound.

    Refused TOPIC_NOT_FOUND. At most 65,536 positions are looked at.
    """

    ticket: object
    topic: str


@dataclass(slots=True)
class ConsumersFound(Event):
    """Names of groups, sorted."""

    ticket: object
    groups: list[str] = field(default_factory=list)
