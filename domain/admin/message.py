"""Stored messages as tools look at them: by place, by key, and at the position of a group."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.command import Command
from domain.event import Event


@dataclass(slots=True)
class ViewMessage(Command):
    """One record by physical offset -> Viewed; Refused MESSAGE_NOT_FOUND."""

    ticket: object
    physical_offset: int


@dataclass(slots=True)
class Viewed(Event):
    """One record."""

    ticket: object
    record: bytes


TIME_MAX_MS = (1 << 63) - 1


@dataclass(slots=True)
class QueryMessages(Command):
    """Messages of `topic` with a key -> MessagesFound, which may be empty. Refused TOPIC_NOT_FOUND, ARGUMENT_ILLEGAL.

    key              one word of KEYS, or the unique id (UNIQ_KEY); unique=True: the unique id alone
    begin_ms, end_ms store time, both included
    limit            at most so many, domain.limits.QUERY_MESSAGES_MAX in any case
    """

    ticket: object
    topic: str
    key: str
    begin_ms: int = 0
    end_ms: int = TIME_MAX_MS
    limit: int = 32
    unique: bool = False


@dataclass(slots=True)
class MessagesFound(Event):
    """Records, newest first."""

    ticket: object
    records: list[bytes] = field(default_factory=list)


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
    remaining: int
