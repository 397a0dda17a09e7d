"""Queries and changes of topics, and their answers: configuration, queues, and consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from domain.command import TicketedCommand
from domain.event import TicketedEvent
from domain.topic.topic import Topic


@dataclass(slots=True)
class QueryTopic(TicketedCommand):
    """Configuration and queues of a topic -> TopicFound.

    create   True: create it first if the node's policy allows that, for protocols whose clients do not create topics

    Errors: TOPIC_NOT_FOUND, TOPIC_ILLEGAL.
    """

    topic: str
    create: bool = False


@dataclass(slots=True)
class TopicFound(TicketedEvent):
    """One topic."""

    topic: Topic


@dataclass(slots=True)
class ListTopics(TicketedCommand):
    """Topics by name -> TopicList.

    after   begin behind this name; "": with the first one
    limit   topics at most; 0: all
    """

    after: str = ""
    limit: int = 0


@dataclass(slots=True)
class TopicList(TicketedEvent):
    """Topics by name."""

    topics: list[Topic]


@dataclass(slots=True)
class PutTopic(TicketedCommand):
    """Create or replace a topic -> Done. Errors: TOPIC_ILLEGAL, ARGUMENT_ILLEGAL."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The queues and permission of a topic, and the attributes to set and to drop. Other attributes stay as they are.

    What is None stays as it is too, and has its default in a new topic.

    read_queues    0 to domain.limits.QUEUES_PER_TOPIC_MAX
    write_queues   0 to domain.limits.QUEUES_PER_TOPIC_MAX
    perm           2 write, 4 read, 6 both
    order          kept for clients: the topic's messages are ordered
    sys_flag       kept for clients
    attributes     `message.type`, `durability`, `retention.ms` and `retention.bytes` set fields of the topic, others are kept
                   as text
    dropped        names of attributes to remove
    """

    name: str
    read_queues: int | None
    write_queues: int | None
    perm: int | None
    order: bool | None = False
    sys_flag: int | None = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()


@dataclass(slots=True)
class ChangeTopic(TicketedCommand):
    """Create or change a topic -> Done (RocketMQ code 17). Errors: TOPIC_ILLEGAL, ARGUMENT_ILLEGAL."""

    change: TopicChange


@dataclass(slots=True)
class DeleteTopic(TicketedCommand):
    """Delete a topic and its messages -> Done (RocketMQ code 215).

    Errors: TOPIC_ILLEGAL, TOPIC_NOT_FOUND, NOT_ALLOWED (it belongs to the system).
    """

    topic: str


@dataclass(slots=True)
class QueryBounds(TicketedCommand):
    """First and next offset of queues -> Bounds (RocketMQ codes 30 and 31).

    queue_id   -1: all queues of the topic

    Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL.
    """

    topic: str
    queue_id: int = -1


@dataclass(slots=True)
class Bounds(TicketedEvent):
    """Bounds of queues.

    queues   (queue id, first offset that is still there, next offset to be readable) a queue
    epoch    epoch of the topic (domain.topic.topic) that the offsets belong to
    """

    queues: list[tuple[int, int, int]]
    epoch: int = 0


@dataclass(slots=True)
class SearchOffset(TicketedCommand):
    """The offset of a queue by store time -> Offset (RocketMQ code 29).

    upper          False: the first offset stored at or after it; True: the last one stored at or before it

    Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL.
    """

    topic: str
    queue_id: int
    timestamp_ms: int
    upper: bool = False


@dataclass(slots=True)
class QueryEarliestStoreTime(TicketedCommand):
    """Store time of the first message that a queue still has -> EarliestStoreTime (RocketMQ code 32).

    Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL.
    """

    topic: str
    queue_id: int


@dataclass(slots=True)
class EarliestStoreTime(TicketedEvent):
    """Store time in epoch milliseconds, -1: the queue is empty."""

    store_ms: int


@dataclass(slots=True)
class QueryTopicState(TicketedCommand):
    """Bounds and last store times of a topic's queues -> TopicState (RocketMQ code 202). Errors: TOPIC_NOT_FOUND."""

    topic: str


@dataclass(slots=True)
class TopicState(TicketedEvent):
    """State of a topic.

    queues       (queue id, first offset, next offset, store time of the last message or -1) a queue
    per_second   messages stored a second, over the last minute
    """

    queues: list[tuple[int, int, int, int]]
    per_second: float


@dataclass(slots=True)
class QueryConsumers(TicketedCommand):
    """Consumer groups that subscribe `topic` now, or have a position on it -> ConsumersFound (RocketMQ code 300).

    At most 65,536 positions are examined. Errors: TOPIC_NOT_FOUND.
    """

    topic: str


@dataclass(slots=True)
class ConsumersFound(TicketedEvent):
    """Names of consumer groups, sorted."""

    groups: list[str] = field(default_factory=list)
