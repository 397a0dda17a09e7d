"""Stored messages as tools look at them: by place, by key, and at the position of a group."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.command import TicketedCommand
from domain.event import TicketedEvent


@dataclass(slots=True)
class ViewMessage(TicketedCommand):
    """One record by its physical offset -> Viewed (RocketMQ code 33). Errors: MESSAGE_NOT_FOUND."""

    physical_offset: int


@dataclass(slots=True)
class Viewed(TicketedEvent):
    """One record, as it is in the log."""

    record: bytes


TIME_MAX_MS = (1 << 63) - 1


@dataclass(slots=True)
class QueryMessages(TicketedCommand):
    """Messages of a topic by key -> MessagesFound (RocketMQ code 12).

    key        one word of KEYS, or the unique id (UNIQ_KEY)
    begin_ms   store time from, included, epoch milliseconds
    end_ms     store time to, included, epoch milliseconds
    limit      messages at most, never above domain.limits.QUERY_MESSAGES_MAX
    unique     True: `key` is a unique id, the words of KEYS are not searched

    Errors: TOPIC_NOT_FOUND, NOT_ALLOWED, ARGUMENT_ILLEGAL.
    """

    topic: str
    key: str
    begin_ms: int = 0
    end_ms: int = TIME_MAX_MS
    limit: int = 32
    unique: bool = False


@dataclass(slots=True)
class MessagesFound(TicketedEvent):
    """Records, the newest first; may be empty."""

    records: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Peek(TicketedCommand):
    """Messages at the position of a group, without a lease -> Peeked (RocketMQ code 200052).

    queue_id   one queue; -1: any queue

    Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL, NOT_ALLOWED.
    """

    group: str
    topic: str
    queue_id: int
    limit: int


@dataclass(slots=True)
class Peeked(TicketedEvent):
    """The answer to Peek.

    records   of the queues in turn
    rest      how many more messages there are
    """

    records: list[bytes]
    remaining: int
