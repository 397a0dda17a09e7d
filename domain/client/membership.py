"""Membership of consumer groups: heartbeats, the members of a group, and the locks of orderly consumers."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.command import TicketedCommand
from domain.event import TicketedEvent


@dataclass(slots=True)
class Subscription:
    """The subscription of one member of a consumer group.

    expression        the filter; "*": every message
    expression_type   TAG or SQL92
    version           counted by the client; the highest one of a group's members counts
    """

    topic: str
    expression: str = "*"
    expression_type: str = "TAG"
    version: int = 0


@dataclass(slots=True)
class Membership:
    """One client's part in one consumer group.

    consume_type    CONSUME_ACTIVELY (pull), CONSUME_PASSIVELY (push) or CONSUME_POP
    model           CLUSTERING: members share the messages; BROADCASTING: each member gets every message
    from_where      where the group starts without a position: CONSUME_FROM_FIRST_OFFSET, _LAST_OFFSET or _TIMESTAMP
    """

    group: str
    consume_type: str = "CONSUME_PASSIVELY"
    model: str = "CLUSTERING"
    from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: list[Subscription] = field(default_factory=list)


@dataclass(slots=True)
class Heartbeat(TicketedCommand):
    """A client is alive and takes part in these groups -> Done (RocketMQ code 34). Ends 120 s after the last one.

    producers            its producer groups
    consumers            its memberships; each replaces what the client said of that group before
    language             of its client library
    version              of its client library, as RocketMQ numbers versions
    keep_subscriptions   True: a membership without subscriptions leaves the known ones
    address              "host:port" of the client, "": unknown; tools show it

    Errors: GROUP_ILLEGAL.
    """

    client_id: str
    producers: list[str] = field(default_factory=list)
    consumers: list[Membership] = field(default_factory=list)
    language: str = "OTHER"
    version: int = 0
    keep_subscriptions: bool = False
    wait: bool = True
    address: str = ""


@dataclass(slots=True)
class Leave(TicketedCommand):
    """A client leaves a consumer group and a producer group -> Done (RocketMQ code 35).

    consumer_group   "": none
    producer_group   "": none; when both are "", the client leaves all its groups
    """

    client_id: str
    consumer_group: str = ""
    producer_group: str = ""


@dataclass(slots=True)
class QueryMembers(TicketedCommand):
    """Client ids of a consumer group -> Members (RocketMQ code 38). Errors: GROUP_OFFLINE (the group has no member)."""

    group: str


@dataclass(slots=True)
class Members(TicketedEvent):
    """Client ids of a consumer group, sorted."""

    client_ids: list[str]


@dataclass(slots=True)
class MembersChanged(TicketedEvent):
    """The members of a group of this client have changed; ticket None."""

    group: str


@dataclass(slots=True)
class LockQueues(TicketedCommand):
    """Lock queues for one client of a group for 60 s -> Locked, with those that the client now holds (RocketMQ code 41, 42).

    queues   (broker, topic, queue id)
    unlock   True: release them -> Done
    """

    group: str
    client_id: str
    queues: list[tuple[str, str, int]]
    unlock: bool = False
    wait: bool = True


@dataclass(slots=True)
class Locked(TicketedEvent):
    """The queues that the client now holds locked: (broker, topic, queue id)."""

    queues: list[tuple[str, str, int]]
