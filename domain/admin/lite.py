"""Queries of tools about lite topics, and their answers."""

from __future__ import annotations

from dataclasses import dataclass

from domain.command import TicketedCommand
from domain.event import TicketedEvent


@dataclass(slots=True)
class QueryLiteNode(TicketedCommand):
    """Query the lite topics of the node -> LiteNode."""


@dataclass(slots=True)
class LiteNode(TicketedEvent):
    """Lite queues, subscriptions, positions; topic -> minutes of expiration; topic -> groups that are bound to it."""

    queues: int
    subscriptions: int
    positions: int
    ready: int
    topics: dict[str, int]
    groups: dict[str, list[str]]


@dataclass(slots=True)
class QueryLiteParent(TicketedCommand):
    """A topic of type LITE -> LiteParent; Refused TOPIC_NOT_FOUND, ARGUMENT_ILLEGAL."""

    topic: str


@dataclass(slots=True)
class LiteParent(TicketedEvent):
    """Minutes of expiration, groups that are bound to it, lite topics of it, lite queues of all."""

    topic: str
    minutes: int
    groups: list[str]
    count: int
    queues: int


@dataclass(slots=True)
class QueryLiteTopic(TicketedCommand):
    """One lite topic -> LiteTopic; Refused TOPIC_NOT_FOUND, ARGUMENT_ILLEGAL."""

    topic: str
    lite: str


@dataclass(slots=True)
class LiteTopic(TicketedEvent):
    """First and next offset, store time of the newest message (0: none), (client id, group) of its subscribers."""

    topic: str
    lite: str
    first: int
    end: int
    newest_ms: int
    subscribers: list[tuple[str, str]]


@dataclass(slots=True)
class QueryLiteClient(TicketedCommand):
    """Query the subscriptions of one client -> LiteClient with at most `limit` names."""

    topic: str
    group: str
    client_id: str
    limit: int


@dataclass(slots=True)
class LiteClient(TicketedEvent):
    """`count` -1: the client has no subscription. Times in epoch milliseconds, 0: never."""

    topic: str
    group: str
    client_id: str
    count: int
    names: list[str]
    seen_ms: int
    received_ms: int


@dataclass(slots=True)
class QueryLiteGroup(TicketedCommand):
    """Query the progress of a group in one lite topic, or with "" in all -> LiteGroup with the `top` farthest behind."""

    group: str
    lite: str
    top: int


@dataclass(slots=True)
class LiteLag:
    """Messages of one lite topic that wait, and the store time of the oldest of them."""

    lite: str
    count: int
    oldest_ms: int


@dataclass(slots=True)
class LiteGroup(TicketedEvent):
    """Progress of a group.

    count, oldest_ms    messages that wait, and the store time of the oldest; -1: the group has no position
    by_count, by_age    lite topics where they wait, the worst first
    position            in one lite topic: its end, the group's position, the store time of the message before it
    """

    group: str
    topic: str
    lite: str
    count: int
    oldest_ms: int
    by_count: list[LiteLag]
    by_age: list[LiteLag]
    position: tuple[int, int, int] | None


@dataclass(slots=True)
class DispatchLite(TicketedCommand):
    """Look again for what waits for a client, "" for all of the group -> Done."""

    group: str
    client_id: str
