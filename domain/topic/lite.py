"""Lite topics: names under a topic of type LITE. Each has an ordered queue of its own, and clients subscribe to each by name.

RocketMQ's LiteUtil, LiteSubscriptionDTO, OffsetOption and PopLiteMessageRequestHeader. A lite queue is named
`%LMQ%$parent$lite`, which no topic can be. Under that name, with queue id 0, it is read, leased from and has positions.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from domain.command import TicketedCommand
from domain.errors import Failure
from domain.event import Leased, TicketedEvent
from domain.message import property as properties
from domain.message.receipt import Receipt
from domain.message.record import Record, with_properties

PREFIX: Final = "%LMQ%$"
SEPARATOR: Final = "$"
NAME_CHARS_MAX: Final = 64
MARKS: Final = (properties.INNER_MULTI_DISPATCH, properties.INNER_MULTI_QUEUE_OFFSET)
"""Properties of a message in lite queues: the names of the queues and the offsets there, in the same order, with commas."""
DISPATCH_MAX: Final = 64
"""Lite queues that one message can be in."""
CLIENT_QUOTA: Final = 2_000
"""Lite topics that one client may subscribe to, unless its group has an attribute for that."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

Done = Callable[[None | Failure], None]


def is_name(lite: str) -> bool:
    """True for a legal name of a lite topic: `[A-Za-z0-9_-]`, 1 to 64 characters."""
    return _NAME.match(lite) is not None


def queue_name(parent: str, lite: str) -> str:
    """`%LMQ%$parent$lite`: the name of the queue of a lite topic."""
    return f"{PREFIX}{parent}{SEPARATOR}{lite}"


def split(name: str) -> tuple[str, str]:
    """The name of a lite queue -> (parent, lite); ("", "") for any other name."""
    parent, separator, lite = name[len(PREFIX) :].partition(SEPARATOR)
    return (parent, lite) if separator and parent and name.startswith(PREFIX) else ("", "")


def topic_of(name: str) -> str:
    """The topic of a queue by its name: the parent of a lite queue, any other name itself."""
    return split(name)[0] if name.startswith(PREFIX) else name


def names_in(stored: bytes, parent: str) -> list[str]:
    """The lite topics of `parent` in whose queues a stored message is (INNER_MULTI_DISPATCH), each once, in order."""
    found = properties.find(stored, properties.INNER_MULTI_DISPATCH_START)
    if not found:
        return []
    places = [split(each) for each in found.decode("utf-8", "replace").split(",")]
    return list(dict.fromkeys([name for topic, name in places if topic == parent and name]))


def name_in(stored: bytes) -> str:
    """The lite topic in stored properties, "" when there is none."""
    return properties.find(stored, properties.LITE_TOPIC_START).decode("utf-8", "replace")


def offset_in(stored: bytes) -> int:
    """The offset in its lite queue of a message with these properties, -1 when it is in none."""
    digits = properties.find(stored, properties.INNER_MULTI_QUEUE_OFFSET_START)
    return int(digits) if digits.isdigit() else -1


def offsets_in(stored: bytes) -> list[int]:
    """The offsets of a message in its lite queues, in the order of `names_in`; [] when it is in none."""
    digits = properties.find(stored, properties.INNER_MULTI_QUEUE_OFFSET_START).split(b",")
    return [int(each) for each in digits] if all(each.isdigit() for each in digits) else []


def seen_in(record: bytes, parent: str, lite_topic: str) -> bytes:
    """The record as readers of one of its lite queues get it: they settle it by the lite topic and the offset that it names.

    A message that is in one lite queue names it already.
    """
    stored = Record(record).properties
    if name_in(stored) == lite_topic and b"," not in properties.find(stored, properties.INNER_MULTI_DISPATCH_START):
        return record
    offsets = dict(zip(names_in(stored, parent), offsets_in(stored), strict=False))
    if lite_topic not in offsets:
        return record
    marks = {
        properties.LITE_TOPIC: lite_topic,
        properties.INNER_MULTI_DISPATCH: queue_name(parent, lite_topic),
        properties.INNER_MULTI_QUEUE_OFFSET: str(offsets[lite_topic]),
    }
    return with_properties(record, properties.with_values(stored, marks))


class LiteAction(enum.Enum):
    """The kind of a SyncSubscription.

    PARTIAL_ADD      add names, and move the group's positions in them when `start` says so
    PARTIAL_REMOVE   remove names
    COMPLETE_ADD     replace all names; the client is alive
    COMPLETE_REMOVE  remove the client
    """

    PARTIAL_ADD = "PARTIAL_ADD"
    PARTIAL_REMOVE = "PARTIAL_REMOVE"
    COMPLETE_ADD = "COMPLETE_ADD"
    COMPLETE_REMOVE = "COMPLETE_REMOVE"


class OffsetOptionType(enum.Enum):
    """Kind of the start position of a group in a lite queue.

    LAST     at its position
    MIN      at the first message
    MAX      at the end
    OFFSET   at offset `value`
    TAIL     `value` messages before the end
    TIME     at the first message stored at or after `value`
    """

    LAST = "LAST"
    MIN = "MIN"
    MAX = "MAX"
    OFFSET = "OFFSET"
    TAIL = "TAIL_N"
    TIME = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class OffsetOption:
    """Start position of a group in a lite queue (RocketMQ's OffsetOption).

    kind    meaning of `value`
    value   an offset, a number of messages or epoch milliseconds; 0 for the other kinds
    """

    kind: OffsetOptionType
    value: int = 0


@dataclass(slots=True)
class SyncSubscription(TicketedCommand):
    """Change the lite topics of `topic` that a client of `group` subscribes to -> Done (RocketMQ code 200071).

    names   lite topics, for all actions but COMPLETE_REMOVE
    start   with PARTIAL_ADD: where the group begins in them; None: at its position

    Errors: TOPIC_NOT_FOUND, GROUP_NOT_FOUND, NOT_ALLOWED, ARGUMENT_ILLEGAL, QUOTA, RATE.
    """

    client_id: str
    group: str
    topic: str
    action: LiteAction
    names: list[str] = field(default_factory=list)
    start: OffsetOption | None = None


@dataclass(slots=True)
class ReceiveLite(TicketedCommand):
    """Lease messages of the client's lite topics -> Received, which is empty when `wait_ms` has passed (RocketMQ code 200070).

    limit         messages at most, 1 to 32
    invisible_ms  length of the leases, above 0 and at most 12 hours
    attempt_id    one attempt of the client: a repeated request with it gets the messages of the first one; "": none

    A lite topic is delivered in order: none of its messages while an earlier one is not settled. All have one pop time,
    queue id 0 and the offset in the lite queue.
    Errors: TOPIC_NOT_FOUND, GROUP_NOT_FOUND, NOT_ALLOWED, ARGUMENT_ILLEGAL, POLLING_FULL.
    """

    client_id: str
    group: str
    topic: str
    limit: int
    invisible_ms: int
    wait_ms: int = 0
    attempt_id: str = ""


@dataclass(slots=True)
class SuspendLite(TicketedCommand):
    """Make the lease on a message of a lite topic end `invisible_ms` from now, without counting an attempt -> Extended.

    invisible_ms   0 to 12 hours

    Errors: ARGUMENT_ILLEGAL, and those of Extend.
    """

    group: str
    topic: str
    lite: str
    receipt: Receipt
    invisible_ms: int


@dataclass(slots=True)
class LiteTaken(TicketedEvent):
    """The client no longer has `lite`: another client of its group, which consumes exclusively, took it. Ticket None."""

    client_id: str
    group: str
    lite: str


@dataclass(slots=True)
class LiteLeaseResult:
    """The messages that a lease of lite queues was given.

    messages   in order
    pop_ms     pop time of the leases, epoch milliseconds
    looked     how many of the queues were read, from the first on
    """

    messages: list[Leased]
    pop_ms: int
    looked: int


class LiteListener(Protocol):
    """Called by the store, on the loop's thread, after the change."""

    def lite_arrived(self, parent: str, lite: str) -> None:
        """A lite queue has a new message."""

    def lite_freed(self, group: str, parent: str, lite: str) -> None:
        """Leases of `group` on a lite queue were settled or have ended: it can lease more."""


class LiteQueues(Protocol):
    """The operations of lite queues that other queues do not have. Everything else goes by the queue's name as a topic."""

    def listen(self, listener: LiteListener) -> None:
        """Add a listener."""

    def lease(
        self,
        group: str,
        parent: str,
        names: Sequence[str],
        limit: int,
        invisible_ms: int,
        attempt_id: str,
        done: Callable[[LiteLeaseResult | Failure], None],
    ) -> None:
        """Lease in order from lite topics, one after the other, `limit` messages at most."""

    def uncount(self, group: str, name: str, offset: int) -> None:
        """Do not count the last delivery of an offset as an attempt."""

    def names(self, parent: str) -> Iterator[str]:
        """Lite topics of a topic that have a queue now."""

    def count(self, parent: str) -> int:
        """Number of lite queues of a topic; "": of all topics."""

    def positions(self) -> int:
        """Positions of groups in the whole store, in other queues too."""

    def newest_ms(self, parent: str, lite: str) -> int:
        """Store time of the newest message, epoch milliseconds; 0: there is none."""

    def time_at(self, parent: str, lite: str, offset: int) -> int:
        """Store time of one message, epoch milliseconds; 0: there is none."""

    def drop(self, parent: str, names: Sequence[str], groups: Sequence[str], done: Done) -> None:
        """Delete lite topics and the positions and leases of `groups` on them. A lite topic that is being written to stays."""
