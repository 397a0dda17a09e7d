"""What the gateway answers: one value a command, carrying the command's ticket back to the adapter that minted it."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.errors import Failure
from domain.message import Placed
from domain.receipt import Receipt


class Event:
    """The root of all events."""

    __slots__ = ()


@dataclass(slots=True)
class Refused(Event):
    """The command was not carried out."""

    ticket: object
    failure: Failure


class Sent(Event):
    """Stored at the level that each topic promises; one Placed a message, in order."""

    __slots__ = ("placed", "ticket")

    def __init__(self, ticket: object, placed: list[Placed]) -> None:
        self.ticket = ticket
        self.placed = placed


@dataclass(slots=True)
class Done(Event):
    """Carried out; there is nothing to say."""

    ticket: object


@dataclass(slots=True)
class Pulled(Event):
    """The answer to Pull: a status, and records as they stand in the log.

    status        FOUND, NO_MATCH (scanned, nothing fits), EMPTY (nothing there yet), TOO_SMALL, TOO_LARGE (out of range)
    next_offset   where to go on, corrected when the offset was out of range
    """

    ticket: object
    status: str
    records: list[bytes]
    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(slots=True)
class Leased:
    """One leased message: its record with RECONSUMETIMES already right, its receipt, and the delivery attempt from 1."""

    record: bytes
    receipt: Receipt
    attempt: int


@dataclass(slots=True)
class Received(Event):
    """The answer to Receive; `messages` may be empty. `remaining`: about how many more could be leased now."""

    ticket: object
    messages: list[Leased]
    pop_ms: int
    invisible_ms: int
    remaining: int = 0


@dataclass(slots=True)
class MessagesWaiting(Event):
    """`there`: a Receive is worth while. `full`: too many wait already, this one was not held."""

    ticket: object
    there: bool
    full: bool = False


@dataclass(slots=True)
class Settled(Event):
    """One outcome a receipt, in order; None is success (an already settled lease among them)."""

    ticket: object
    outcomes: list[Failure | None]


@dataclass(slots=True)
class Extended(Event):
    """One outcome a receipt, in order: the new receipt, or why not."""

    ticket: object
    outcomes: list[Receipt | Failure]


@dataclass(slots=True)
class Offset(Event):
    """One offset."""

    ticket: object
    offset: int


@dataclass(slots=True)
class Members(Event):
    """Client ids of a consumer group, sorted."""

    ticket: object
    client_ids: list[str]


@dataclass(slots=True)
class Locked(Event):
    """(broker, topic, queue id) that the client now holds."""

    ticket: object
    queues: list[tuple[str, str, int]]


@dataclass(slots=True)
class MembersChanged(Event):
    """Unasked (ticket None): the members of a group that this client belongs to have changed."""

    ticket: object
    group: str


@dataclass(slots=True)
class WatchStarted(Event):
    """The watch is on."""

    ticket: object


@dataclass(slots=True)
class WatchedMessages(Event):
    """Live messages for a watch: records in log order."""

    ticket: object
    records: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class LatestValue(Event):
    """The latest value of a path, as the record that set it, or None."""

    ticket: object
    record: bytes | None
