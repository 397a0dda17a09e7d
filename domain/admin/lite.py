"""Queries of tools about lite topics, and their answers."""

from __future__ import annotations

from dataclasses import dataclass

from domain.command import Command
from domain.event import Event


@dataclass(slots=True)
class QueryLiteNode(Command):
    """Query the lite topics of the node -> LiteNode."""

    ticket: object


@dataclass(slots=True)
class LiteNode(Event):
    """Lite queues, subscriptions, positions; topic -> minutes of expiration; topic -> groups that are bound to it."""

    ticket: object
    queues: int
    subscriptions: int
    positions: int
    ready: int
    topics: dict[str, int]
    groups: dict[str, list[str]]


@dataclass(slots=True)
class QueryLiteParent(Command):
    """A topic of type LITE -> LiteParent; Refused TOPIC_NOT_FOUND, ARGUMENT_ILLEGAL."""

    ticket: object
    topic: str


@dataclass(slots=True)
class LiteParent(Event):
    """Minutes of expiration, groups that are bound to it, lite topics of it, lite queues of all."""

    ticket: object
    topic: str
    minutes: int
    groups: list[str]
    count: int
    queues: int


@dataclass(slots=True)
class QueryLiteTopic(Command):
    """One lite topic -> LiteTopic; Refused TOPIC_NOT_FOUND, ARGUMENT_ILLEGAL."""

    ticket: object
    topic: str
    lite: str


@dataclass(slots=True)
class LiteTopic(Event):
    """First and next offset, store time of the newest message (0: none), (client id, group) of its subscribers."""

    ticket: object
    topic: str
    lite: str
    first: int
    end: int
    newest_ms: int
    subscribers: list[tuple[str, str]]


@dataclass(slots=True)
class QueryLiteClient(Command):
    """Query the subscriptions of one client -> LiteClient with at most `limit` names."""

    ticket: object
    topic: str
    group: str
    client_id: str
    limit: int


@dataclass(slots=True)
class LiteClient(Event):
    """`count` -1: the client has no subscription. Times in epoch milliseconds, 0: never."""

    ticket: object
    topic: str
    group: str
    client_id: str
    count: int
    names: list[str]
    seen_ms: int
    received_ms: int


@dataclass(slots=True)
class QueryLiteGroup(Command):
    """Query the progress of a group in one lite topic, or with "" in all -> LiteGroup with the `top` farthest behind."""

    ticket: object
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
class LiteGroup(Event):
    """Progress of a group.

    count, oldest_ms    messages that wait, and the store time of the oldest; -1: the group has no position
    by_count, by_age    lite topics where they wait, the worst first
    position            in one lite topic: its end, the group's position, the store time of the message before it
    """

    ticket: object
    group: str
    topic: str
    lite: str
    count: int
    oldest_ms: int
    by_count: list[LiteLag]
    by_age: list[LiteLag]
    position: tuple[int, int, int] | None


@dataclass(slots=True)
class DispatchLite(Command):
    """Look again for what waits for a client, "" for all of the group -> Done."""

    ticket: object
    group: str
    client_id: str
