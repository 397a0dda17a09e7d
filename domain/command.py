"""What a client wants: one value a request, minted by a protocol adapter, handled by a use case.

`ticket` is the adapter's own: whatever it needs to answer (an opaque, a stream id, a packet id). It comes back in the event
and is never looked into by anybody else. Every command is answered by exactly one event, except where its text says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from domain.filter.filter import Filter
from domain.message import Message
from domain.receipt import Receipt

if TYPE_CHECKING:
    from domain.principal import Principal


class Command:
    """The root of all commands.

    principal   who wants it, written by the adapter where each request brings credentials of its own; not set where the
                connection's principal stands for all of them, or where access is not controlled
    """

    __slots__ = ("principal",)

    principal: Principal


class Send(Command):
    """Append `messages` (one topic, or several) -> Sent, or Refused and then nothing was stored.

    wait=False: the client expects no answer (QoS 0, NON, oneway): none is given, the message is stored all the same.
    typed=True: the protocol declares message types, so the topic's must fit; TYPE_CONFLICT.
    queues: of a topic made for them, at most the node's own number, which it is for 0.
    """

    __slots__ = ("messages", "queues", "ticket", "typed", "wait")

    def __init__(
        self, ticket: object, messages: list[Message], wait: bool = True, typed: bool = False, queues: int = 0
    ) -> None:
        self.ticket = ticket
        self.messages = messages
        self.wait = wait
        self.typed = typed
        self.queues = queues


class SendRetry(Send):
    """A queue-level consumer sends a message to its group's retry topic itself (RocketMQ's orderly consumers) -> Sent.

    Beyond `retry_max` redeliveries (-1: the group's own limit), or while members of the group hold queue locks, it goes to the
    dead-letter topic: what is kept in order is retried where it is, and comes here only when that is over.
    """

    __slots__ = ("group", "retry_max")

    def __init__(self, ticket: object, messages: list[Message], group: str, retry_max: int = -1, wait: bool = True) -> None:
        super().__init__(ticket, messages, wait)
        self.group = group
        self.retry_max = retry_max


@dataclass(slots=True)
class Pull(Command):
    """Read from `offset` of one queue without leasing -> Pulled.

    wait_ms       hold the request until something matches, at most this long; 0 answers at once
    commit        also store this offset as the group's position, -1: do not
    member        the client id when it pulls as a registered member of a clustering group; "" for a reader beside the group
    subscribed    True: the filter is what members of the group said of the topic in their heartbeats, on whatever connection;
                  GROUP_OFFLINE when none did
    broadcast     True: the filter is of the reader's heartbeat, by which it reads everything: NOT_ALLOWED if its group may not
    """

    ticket: object
    group: str
    topic: str
    queue_id: int
    offset: int
    limit: int
    max_bytes: int
    wait_ms: int = 0
    filter: Filter | None = None
    commit: int = -1
    member: str = ""
    subscribed: bool = False
    broadcast: bool = False


@dataclass(slots=True)
class Receive(Command):
    """Lease up to `limit` messages (POP) -> Received; an empty one when `wait_ms` ran out.

    queue_id      -1: any queue of the topic (and the group's retry topic)
    from_first    where a group without a position starts: True at the first message, False at the last one there is
    ordered       never past an un-settled message of its key; `attempt_id`: one logical attempt; `fleeting`: see MessageStore
    """

    ticket: object
    group: str
    topic: str
    limit: int
    invisible_ms: int
    wait_ms: int = 0
    queue_id: int = -1
    filter: Filter | None = None
    from_first: bool = False
    ordered: bool = False
    attempt_id: str = ""
    client_id: str = ""
    fleeting: bool = False


@dataclass(slots=True)
class AwaitMessages(Command):
    """Hold until the group has something to receive from a topic, at most `wait_ms`, leasing nothing -> MessagesWait.

    `queue_id` -1: any queue. "Something" is a message that nobody holds on lease and, with `ordered`, that does not wait for
    another one of its message group. With an `attempt_id` also what a Receive of that attempt has been given. TOPIC_NOT_FOUND,
    QUEUE_ILLEGAL, NOT_ALLOWED.
    """

    ticket: object
    group: str
    topic: str
    queue_id: int = -1
    wait_ms: int = 0
    ordered: bool = False
    attempt_id: str = ""


@dataclass(slots=True)
class Acknowledge(Command):
    """Settle leases -> Settled with one outcome a receipt, in order. The receipt's retry flag tells the retry topic apart."""

    ticket: object
    group: str
    topic: str
    receipts: list[Receipt]


@dataclass(slots=True)
class Extend(Command):
    """Make leases end `invisible_ms` from now; 0 gives the messages back at once (nack) -> Extended, in order.

    untold   True: their client never heard of them, so no delivery is counted; they go back at once
    """

    ticket: object
    group: str
    topic: str
    receipts: list[Receipt]
    invisible_ms: int
    untold: bool = False


@dataclass(slots=True)
class DeadLetter(Command):
    """Copy a leased message to the group's dead-letter topic and settle it -> Done. Harmless when repeated."""

    ticket: object
    group: str
    topic: str
    receipt: Receipt


@dataclass(slots=True)
class SendBack(Command):
    """A queue-level consumer gives a message back (RocketMQ code 36) -> Done.

    delay_level 0: 3 + attempts so far; above 0 as given; below 0: to the dead-letter topic now.
    retry_max -1: the group's own limit.
    """

    ticket: object
    group: str
    physical_offset: int
    delay_level: int
    retry_max: int = -1
    origin_topic: str = ""
    origin_message_id: str = ""


@dataclass(slots=True)
class CommitOffsets(Command):
    """Store positions of `group` -> Done. `offsets`: (topic, queue id, next offset). wait=False: no answer expected."""

    ticket: object
    group: str
    offsets: list[tuple[str, int, int]]
    wait: bool = True


@dataclass(slots=True)
class QueryOffset(Command):
    """The group's position -> Offset; Refused OFFSET_NOT_FOUND when it has none."""

    ticket: object
    group: str
    topic: str
    queue_id: int
    zero_if_absent: bool = True


@dataclass(slots=True)
class Subscription:
    """What one member of a group listens to. `expression_type` is TAG or SQL92; `version` the client's own."""

    topic: str
    expression: str = "*"
    expression_type: str = "TAG"
    version: int = 0


@dataclass(slots=True)
class Membership:
    """One client's part in one consumer group.

    consume_type   CONSUME_ACTIVELY (pull), CONSUME_PASSIVELY (push) or CONSUME_POP
    model          CLUSTERING or BROADCASTING
    """

    group: str
    consume_type: str = "CONSUME_PASSIVELY"
    model: str = "CLUSTERING"
    from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: list[Subscription] = field(default_factory=list)


@dataclass(slots=True)
class Heartbeat(Command):
    """The client lives, and takes part in these groups -> Done. Replaces what it said before; expires after 120 s of silence.

    keep_subscriptions=True leaves known subscriptions where a membership brings none.
    `address`: "host:port" of the client, "" when the protocol does not say it; tools show it.
    """

    ticket: object
    client_id: str
    producers: list[str] = field(default_factory=list)
    consumers: list[Membership] = field(default_factory=list)
    language: str = "OTHER"
    version: int = 0
    keep_subscriptions: bool = False
    wait: bool = True
    address: str = ""


@dataclass(slots=True)
class Leave(Command):
    """The client leaves a consumer group and a producer group ("" = none named; both "" = all of them) -> Done."""

    ticket: object
    client_id: str
    consumer_group: str = ""
    producer_group: str = ""


@dataclass(slots=True)
class QueryMembers(Command):
    """Who is in a consumer group -> Members; Refused GROUP_OFFLINE when nobody is."""

    ticket: object
    group: str


@dataclass(slots=True)
class LockQueues(Command):
    """Lock queues for one client of a group for 60 s -> Locked with those that it now holds. `unlock` releases instead."""

    ticket: object
    group: str
    client_id: str
    queues: list[tuple[str, str, int]]
    unlock: bool = False
    wait: bool = True


@dataclass(slots=True)
class Watch(Command):
    """Live messages whose path matches `pattern` -> Watched once, then any number of Delivered, until Unwatch or disconnect.

    Nothing is kept for a watcher that is away. `limit_pending`: a watcher this far behind loses the oldest, counted.
    """

    ticket: object
    pattern: str


@dataclass(slots=True)
class Unwatch(Command):
    """End the watch whose ticket this is (tickets compare by equality). No answer."""

    ticket: object


@dataclass(slots=True)
class QueryLatest(Command):
    """Latest (retained) value of one exact path -> Value, with record None when there is none."""

    ticket: object
    path: str


@dataclass(slots=True)
class DeleteLatest(Command):
    """Remove the latest value of one exact path, without a message -> Done."""

    ticket: object
    path: str


@dataclass(slots=True)
class Disconnected(Command):
    """The connection is over; `reason` is one of the adapter's closed list and is counted. The last command. No answer.

    clean=True: the client said goodbye in its protocol's words.
    """

    reason: str
    clean: bool = False
