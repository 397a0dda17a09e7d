"""What can be asked of connected clients, and the answers: who is connected, and what a client says of itself."""

from __future__ import annotations

from dataclasses import dataclass

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
class QueryRunningInfo(Command):
    """How a member of a consumer group is doing -> RunningInfo. GROUP_OFFLINE when it is not there, CLIENT_UNKNOWN.

    `stacks`: with the stacks of its threads. CLIENT_UNKNOWN is a client that does not answer in time, or hangs up.
    """

    ticket: object
    group: str
    client_id: str
    stacks: bool = False


@dataclass(slots=True)
class RunningInfo(Event):
    """The client's account of itself: RocketMQ's ConsumerRunningInfo, JSON."""

    ticket: object
    text: bytes


@dataclass(slots=True)
class ConsumeDirectly(Command):
    """Have a member of a group, "" any, consume one stored message now -> ConsumptionResult. Positions and leases stay.

    GROUP_OFFLINE, MESSAGE_NOT_FOUND, CLIENT_UNKNOWN. `message_id` is passed on to the client as it came.
    """

    ticket: object
    group: str
    client_id: str
    physical_offset: int
    message_id: str = ""


@dataclass(slots=True)
class ConsumptionResult(Event):
    """What came of consuming one message: RocketMQ's ConsumeMessageDirectlyResult, JSON."""

    ticket: object
    text: bytes


@dataclass(slots=True)
class QueryClientPositions(Command):
    """Positions that the members of a group, or one of them, have in memory on a topic -> ClientPositions.

    A member that does not answer is left out. GROUP_OFFLINE; CLIENT_UNKNOWN when none answers.
    """

    ticket: object
    topic: str
    group: str
    client_id: str = ""


@dataclass(slots=True)
class ClientPositions(Event):
    """Client id -> (broker, topic, queue id, offset) a queue that it consumes."""

    ticket: object
    members: dict[str, list[tuple[str, str, int, int]]]
