"""Queries of connected clients, and their answers: lists of clients, and the facts that a client reports of itself."""

from __future__ import annotations

from dataclasses import dataclass

from domain.client.membership import Subscription
from domain.command import TicketedCommand
from domain.event import TicketedEvent


@dataclass(frozen=True, slots=True)
class ClientSeen:
    """One client as its last heartbeat described it.

    address     "host:port", "": unknown
    language    of its client library
    version     of its client library, as RocketMQ numbers versions
    """

    client_id: str
    address: str
    language: str
    version: int
    seen_ms: int


@dataclass(slots=True)
class QueryConnections(TicketedCommand):
    """The members of a consumer group -> Connections (RocketMQ code 203). Errors: GROUP_OFFLINE."""

    group: str


@dataclass(slots=True)
class Connections(TicketedEvent):
    """The members of a consumer group.

    clients         by client id
    consume_type    as in Membership, from the heartbeat of a member
    """

    clients: list[ClientSeen]
    consume_type: str
    model: str
    from_where: str
    subscriptions: list[Subscription]


@dataclass(slots=True)
class QueryProducers(TicketedCommand):
    """The clients of producer groups -> Producers (RocketMQ codes 204 and 328).

    group   one producer group; "": all of them

    Errors: GROUP_OFFLINE (the group has no client).
    """

    group: str = ""


@dataclass(slots=True)
class Producers(TicketedEvent):
    """Producer group -> its clients by client id."""

    groups: dict[str, list[ClientSeen]]


@dataclass(slots=True)
class QueryRunningInfo(TicketedCommand):
    """Ask a member of a consumer group for its state -> RunningInfo (RocketMQ code 307).

    stacks   True: with the stacks of its threads

    Errors: GROUP_OFFLINE (it is not connected), CLIENT_UNKNOWN (it disconnects or does not answer in time), OVERLOADED.
    """

    group: str
    client_id: str
    stacks: bool = False


@dataclass(slots=True)
class RunningInfo(TicketedEvent):
    """The client's answer: the JSON of RocketMQ's ConsumerRunningInfo."""

    text: bytes


@dataclass(slots=True)
class ConsumeDirectly(TicketedCommand):
    """Have a member of a group consume one stored message now -> ConsumptionResult (RocketMQ code 309).

    client_id    the member; "": any member
    message_id   passed on to the client as it came

    Positions and leases do not change. Errors: GROUP_OFFLINE, MESSAGE_NOT_FOUND, CLIENT_UNKNOWN, OVERLOADED.
    """

    group: str
    client_id: str
    physical_offset: int
    message_id: str = ""


@dataclass(slots=True)
class ConsumptionResult(TicketedEvent):
    """The client's answer: the JSON of RocketMQ's ConsumeMessageDirectlyResult."""

    text: bytes


@dataclass(slots=True)
class QueryClientPositions(TicketedCommand):
    """Ask members of a group for the positions that they hold in memory -> ClientPositions (RocketMQ code 223).

    client_id   one member; "": all members

    A member that does not answer in time is left out. Errors: GROUP_OFFLINE, CLIENT_UNKNOWN (no member answers), OVERLOADED.
    """

    topic: str
    group: str
    client_id: str = ""


@dataclass(slots=True)
class ClientPositions(TicketedEvent):
    """Client id -> (broker, topic, queue id, offset) a queue that the client consumes."""

    members: dict[str, list[tuple[str, str, int, int]]]
