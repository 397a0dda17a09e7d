"""Looking for messages by what they carry."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.command import Command
from domain.event import Event

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
