"""Lite topics: names under a topic of type LITE, each with an ordered queue of its own, subscribed one by one.

RocketMQ's LiteUtil, LiteSubscriptionDTO, OffsetOption and the headers PopLiteMessage…, GetLite…Info. A lite queue is named
`%LMQ%$parent$lite`, which no topic can be; by that name MessageStore reads it, settles in it and keeps positions on it, with
queue id 0.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from domain import property as properties
from domain.command import Command
from domain.errors import Failure
from domain.event import Event, Leased
from domain.receipt import Receipt

PREFIX: Final = "%LMQ%$"
SEPARATOR: Final = "$"
NAME_CHARS_MAX: Final = 64
MARKS: Final = (properties.INNER_MULTI_DISPATCH, properties.INNER_MULTI_QUEUE_OFFSET)
"""Properties of a stored message that is in a lite queue: its name, and the offset there."""
CLIENT_QUOTA: Final = 2_000
"""Lite topics that one client may subscribe to where its group says nothing."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

Done = Callable[[None | Failure], None]


def is_name(lite: str) -> bool:
    """True when `lite` may name a lite topic: `[A-Za-z0-9_-]`, 1 to 64 characters."""
    return _NAME.match(lite) is not None


def queue_name(parent: str, lite: str) -> str:
    """The name of a lite queue."""
    return f"{PREFIX}{parent}{SEPARATOR}{lite}"


def split(name: str) -> tuple[str, str]:
    """A lite queue's name -> (parent, lite); two empty texts for what is none."""
    parent, separator, lite = name[len(PREFIX) :].partition(SEPARATOR)
    return (parent, lite) if separator and parent and name.startswith(PREFIX) else ("", "")


def topic_of(name: str) -> str:
    """The topic that a queue's name belongs to: a lite queue's parent, any other name itself."""
    return split(name)[0] if name.startswith(PREFIX) else name


def name_in(stored: bytes) -> str:
    """The lite topic of a message with these properties, "" for one without."""
    return properties.find(stored, properties.LITE_TOPIC_START).decode("utf-8", "replace")


def offset_in(stored: bytes) -> int:
    """The offset in its lite queue of a message with these properties, -1 for one that is in none."""
    digits = properties.find(stored, properties.INNER_MULTI_QUEUE_OFFSET_START)
    return int(digits) if digits.isdigit() else -1


class LiteAction(enum.Enum):
    """What a subscription command changes."""

    PARTIAL_ADD = "PARTIAL_ADD"
    PARTIAL_REMOVE = "PARTIAL_REMOVE"
    COMPLETE_ADD = "COMPLETE_ADD"
    COMPLETE_REMOVE = "COMPLETE_REMOVE"


class OffsetOptionType(enum.Enum):
    """What `OffsetOption.value` is: nothing (LAST, MIN, MAX), an offset, a number of messages (TAIL), an epoch millisecond."""

    LAST = "LAST"
    MIN = "MIN"
    MAX = "MAX"
    OFFSET = "OFFSET"
    TAIL = "TAIL_N"
    TIME = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class OffsetOption:
    """Where a group goes on in a lite queue. LAST leaves its position as it is; TIME is in epoch milliseconds."""

    kind: OffsetOptionType
    value: int = 0


@dataclass(slots=True)
class SyncSubscription(Command):
    """Change what a client of `group` hears of `topic` -> Done.

    PARTIAL_ADD adds names and may move the group's positions in them (`start`), PARTIAL_REMOVE takes names away, COMPLETE_ADD
    replaces all of them and says that the client lives, COMPLETE_REMOVE ends everything of the client.
    Refused TOPIC_NOT_FOUND, GROUP_NOT_FOUND, NOT_ALLOWED, ARGUMENT_ILLEGAL, QUOTA, RATE.
    """

    ticket: object
    client_id: str
    group: str
    topic: str
    action: LiteAction
    names: list[str] = field(default_factory=list)
    start: OffsetOption | None = None


@dataclass(slots=True)
class ReceiveLite(Command):
    """Lease up to `limit` messages of what the client has subscribed to -> Received; an empty one when `wait_ms` ran out.

    A lite topic is handed out in order: nothing of it while an earlier message is not settled, except to the same `attempt_id`.
    All receipts have one pop time, queue id 0, and the offset in the lite queue.
    """

    ticket: object
    client_id: str
    group: str
    topic: str
    limit: int
    invisible_ms: int
    wait_ms: int = 0
    attempt_id: str = ""


@dataclass(slots=True)
class SuspendLite(Command):
    """Make a lease on a message of a lite topic end `invisible_ms` from now; the delivery was no attempt -> Extended."""

    ticket: object
    group: str
    topic: str
    lite: str
    receipt: Receipt
    invisible_ms: int


@dataclass(slots=True)
class LiteTaken(Event):
    """Unasked (ticket None): the client `client_id` no longer has `lite`, because another has taken it."""

    ticket: object
    client_id: str
    group: str
    lite: str


@dataclass(slots=True)
class LiteLeaseResult:
    """What a lease of lite queues got. `looked`: how many of the queues, from the first on, were looked at."""

    messages: list[Leased]
    pop_ms: int
    looked: int


class LiteListener(Protocol):
    """Told by the store, on the loop's thread, after the fact."""

    def lite_arrived(self, parent: str, lite: str) -> None:
        """There is a new message in a lite queue."""

    def lite_freed(self, group: str, parent: str, lite: str) -> None:
        """What `group` had of a lite queue is settled, or has ended: more of it can be leased."""


class LiteQueues(Protocol):
    """Lite queues where they differ from others. Everything else is MessageStore with the queue's name as the topic."""

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
        """Lease in order from lite topics, one after the other, until `limit` is reached."""

    def uncount(self, group: str, name: str, offset: int) -> None:
        """Take back that the lease on an offset was an attempt."""

    def names(self, parent: str) -> Iterator[str]:
        """Lite topics of a topic that have a queue, as they are now."""

    def count(self, parent: str) -> int:
        """How many there are; "" counts those of all topics."""

    def positions(self) -> int:
        """Positions of groups in the whole store, those in other queues too."""

    def newest_ms(self, parent: str, lite: str) -> int:
        """Store time of the newest message, 0 when there is none."""

    def time_at(self, parent: str, lite: str, offset: int) -> int:
        """Store time of one message, 0 when there is none."""

    def drop(self, parent: str, names: Sequence[str], groups: Sequence[str], done: Done) -> None:
        """Forget lite topics, with what `groups` have of them. One that has been written to in this moment stays."""
