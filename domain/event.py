"""Answers of the gateway: one value a command, with the ticket of that command. Events without a command have ticket None."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from domain.errors import Failure
from domain.message.pull import Pulled as Pulled  # noqa: PLC0414, those who import it know no other place
from domain.message.receipt import Receipt
from domain.message.send import Sent as Sent  # noqa: PLC0414

if TYPE_CHECKING:
    from typing import Protocol as Root
else:
    Root = object


class Event(Root):
    """The root of all events. `Sent`, which is compiled, is one without it: for the type checker, this is a protocol.

    ticket   that of the command, None without one
    """

    if TYPE_CHECKING:
        ticket: object = None
    else:
        __slots__ = ()


@dataclass(slots=True)
class TicketedEvent(Event):
    """An event whose ticket is the first of its fields."""

    ticket: object


@dataclass(slots=True)
class Refused(TicketedEvent):
    """The command was not carried out, for this reason."""

    failure: Failure


@dataclass(slots=True)
class Done(TicketedEvent):
    """The command was carried out and has no result."""


@dataclass(slots=True)
class TopicFollowed(TicketedEvent):
    """The answer to FollowTopic.

    status      FOUND; EMPTY: no message yet; TOO_SMALL, TOO_LARGE: an offset is below or above what its queue has; OTHER_EPOCH:
                the topic was deleted and made again
    records     of several queues, those of each in offset order
    offsets     queue id -> offset to go on at, of every queue that is followed
    epoch       epoch of the topic that the offsets belong to
    next_queue  a queue that may have more messages now, to be read first by the next FollowTopic; -1: none has
    """

    status: str
    records: list[bytes]
    offsets: dict[int, int]
    epoch: int
    next_queue: int = -1


@dataclass(slots=True)
class LeasesEnded(TicketedEvent):
    """The answer to AwaitSettled.

    ended   how many leases that were watched have ended since the last answer
    """

    ended: int


@dataclass(slots=True)
class Leased:
    """One leased message.

    record    with RECONSUMETIMES set to the redeliveries so far
    receipt   settles the lease or extends it
    attempt   number of this delivery, from 1
    """

    record: bytes
    receipt: Receipt
    attempt: int


@dataclass(slots=True)
class Received(TicketedEvent):
    """The answer to Receive.

    messages       leased to the client, in order; may be empty
    pop_ms         pop time of the leases, epoch milliseconds
    rest           about how many more messages could be leased now
    """

    messages: list[Leased]
    pop_ms: int
    invisible_ms: int
    remaining: int = 0


@dataclass(slots=True)
class MessagesWaiting(TicketedEvent):
    """The answer to AwaitMessages.

    there   True: a Receive would find a message
    full    True: the request was not held, too many are held already
    """

    there: bool
    full: bool = False


@dataclass(slots=True)
class Settled(TicketedEvent):
    """The answer to Acknowledge.

    outcomes   one a receipt, in order; None: the lease is settled
    """

    outcomes: list[Failure | None]


@dataclass(slots=True)
class Extended(TicketedEvent):
    """The answer to Extend.

    outcomes   one a receipt, in order: the new receipt, or the failure
    """

    outcomes: list[Receipt | Failure]


@dataclass(slots=True)
class Offset(TicketedEvent):
    """One offset of a queue."""

    offset: int


@dataclass(slots=True)
class WatchStarted(TicketedEvent):
    """The watch is on."""


@dataclass(slots=True)
class WatchedMessages(TicketedEvent):
    """Records that a watch matches, in log order."""

    records: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class LatestValue(TicketedEvent):
    """The latest (retained) value of a path: the record that set it, None when there is none."""

    record: bytes | None
