"""Who is connected, how far groups are and how much flows: questions of tools, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.command import Command, Subscription
from domain.event import Event


@dataclass(frozen=True, slots=True)
class ClientSeen:
    """One client: `address` is "host:port", "" unknown; `seen_ms` the wall clock of its last heartbeat."""

    client_id: str
    address: str
    language: str
    version: int
    seen_ms: int


@dataclass(slots=True)
class QueryConnections(Command):
    """The members of a consumer group -> Connections. GROUP_OFFLINE."""

    ticket: object
    group: str


@dataclass(slots=True)
class Connections(Event):
    """Members by client id; how and what the group consumes, as its members said last."""

    ticket: object
    clients: list[ClientSeen]
    consume_type: str
    model: str
    from_where: str
    subscriptions: list[Subscription]


@dataclass(slots=True)
class QueryProducers(Command):
    """The clients of a producer group, "" of all -> Producers. GROUP_OFFLINE for one that has none."""

    ticket: object
    group: str = ""


@dataclass(slots=True)
class Producers(Event):
    """Producer group -> its clients by client id."""

    ticket: object
    groups: dict[str, list[ClientSeen]]


@dataclass(slots=True)
class QueryConsumed(Command):
    """Topics that a group subscribes now, or has a position on -> Consumed. GROUP_NOT_FOUND."""

    ticket: object
    group: str


@dataclass(slots=True)
class Consumed(Event):
    """Names of topics, sorted."""

    ticket: object
    topics: list[str]


@dataclass(slots=True)
class QuerySpans(Command):
    """The times of a topic's messages as a group sees them -> Spans. TOPIC_NOT_FOUND, GROUP_NOT_FOUND."""

    ticket: object
    topic: str
    group: str


@dataclass(slots=True)
class Span:
    """One queue: store times, epoch milliseconds, -1 for none.

    first_ms, last_ms   of the first and the last message that it has
    consumed_ms         of the last one before the group's position
    waiting_ms          of the first one at the group's position
    """

    queue_id: int
    first_ms: int = -1
    last_ms: int = -1
    consumed_ms: int = -1
    waiting_ms: int = -1


@dataclass(slots=True)
class Spans(Event):
    """By queue id."""

    ticket: object
    spans: list[Span]


@dataclass(slots=True)
class QueryBacklog(Command):
    """How far every group is, 65,536 queues of them at most; `ordered`: on ordered topics alone -> Backlog."""

    ticket: object
    ordered: bool = False


@dataclass(slots=True)
class Backlog(Event):
    """Group -> (topic, queue id, next offset of the queue, the group's position); groups without a position are left out.

    `times`: group -> (topic, queue id) -> store time of the last message before the position, where it is still there.
    `given`: group -> (topic, queue id) -> offset up to which the group has been given messages, where beyond its position.
    """

    ticket: object
    groups: dict[str, list[tuple[str, int, int, int]]]
    times: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    given: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)


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
class QueryRates(Command):
    """How much went by under a name -> Rates. ARGUMENT_ILLEGAL when nothing did.

    name   RocketMQ's: TOPIC_PUT_NUMS, TOPIC_PUT_SIZE (key: topic), GROUP_GET_NUMS, GROUP_GET_SIZE (topic@group),
           BROKER_PUT_NUMS, BROKER_GET_NUMS (any key)
    """

    ticket: object
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class FlowRate:
    """What went by in a stretch of time: the sum, how much a second, and how much at a time."""

    sum: int = 0
    per_second: float = 0.0
    per_time: float = 0.0


@dataclass(slots=True)
class Rates(Event):
    """Over the last minute, hour and day, as far as the node has been up."""

    ticket: object
    minute: FlowRate
    hour: FlowRate
    day: FlowRate


@dataclass(slots=True)
class Peek(Command):
    """Messages at a group's position, leasing nothing -> Peeked. `queue_id` -1: any queues.

    TOPIC_NOT_FOUND, QUEUE_ILLEGAL, NOT_ALLOWED.
    """

    ticket: object
    group: str
    topic: str
    queue_id: int
    limit: int


@dataclass(slots=True)
class Peeked(Event):
    """Records of the queues in turn, and how many more there are."""

    ticket: object
    records: list[bytes]
    rest: int


@dataclass(slots=True)
class ChangePolicy(Command):
    """Change what the node does unasked, until its next start -> Done. ARGUMENT_ILLEGAL.

    `changes`: create_topics, create_groups (true, false), queues (of topics made on first use), share_strategy,
    priority_order_ascending (true, false), priority_again_first_percent (0 to 100), transaction_timeout_ms,
    transaction_check_ms, transaction_checks_max (see domain/transaction.Questions) -> values as text; all or none.
    """

    ticket: object
    changes: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class QueryPolicy(Command):
    """What the node does unasked -> PolicyFound."""

    ticket: object


@dataclass(slots=True)
class PolicyFound(Event):
    """Name -> value as text."""

    ticket: object
    values: dict[str, str]
