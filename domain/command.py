"""Requests of clients: one value a request, made by a protocol adapter and served by a use case.

`ticket` belongs to the adapter: what it needs to answer (an opaque, a stream id, a packet id). It comes back unchanged in the
event and nobody else reads it. Every command is answered with exactly one event, which its docstring names after `->`, or with
Refused and one of the errors that it names (domain.errors.ErrorCode), unless it says that it has no answer. Any command may
also be refused with NOT_AUTHENTICATED, NOT_ALLOWED, RATE, OVERLOADED or STORE_UNAVAILABLE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from domain.filter.filter import Filter
from domain.message.receipt import Receipt
from domain.message.send import Send as Send  # noqa: PLC0414, those who import it know no other place
from domain.message.send import SendRetry as SendRetry  # noqa: PLC0414

if TYPE_CHECKING:
    from typing import Protocol as Root

    from domain.access.principal import Principal
else:
    Root = object


class Command(Root):
    """The root of all commands. `Send`, which is compiled, is one without it: for the type checker, this is a protocol.

    principal   the sender, set by the adapter where each request brings its own credentials; not set (in a `Send`: None) where
                the principal of the connection counts for all its requests, or where access is not controlled

    Fields of several commands:
    wait_ms   hold the request at most this long, until there is something to answer; 0: answer at once
    epoch     the topic's epoch (domain.topic.topic) when the reader learnt its offsets; -1: not known, and not compared
    """

    __slots__ = ("principal",)

    if TYPE_CHECKING:
        principal: Principal | None = None


@dataclass(slots=True)
class TicketedCommand(Command):
    """A command that is answered: its ticket is the first of its fields."""

    ticket: object


@dataclass(slots=True)
class Pull(TicketedCommand):
    """Read messages of one queue from `offset` on, without a lease -> Pulled (RocketMQ code 11).

    max_bytes    bytes of records at most, but at least one message
    filter       only messages that match it; None: all
    commit       also store this offset as the position of the group; -1: do not
    member       client id of a registered member of a clustering group; "": the reader does not share its messages with a group
    subscribed   True: take the filter from the subscriptions in the heartbeats of the group's members, on any connection
    broadcast    True: the client reads every message, as its heartbeat says; the group must allow that
    whole        True: every stored message, expired ones included

    Errors: TOPIC_NOT_FOUND (also when the topic has another epoch), QUEUE_ILLEGAL, NOT_ALLOWED, GROUP_ILLEGAL, GROUP_NOT_FOUND,
    FILTER_ILLEGAL, GROUP_OFFLINE (`subscribed`, and no member has a subscription).
    """

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
    epoch: int = -1
    whole: bool = False


@dataclass(slots=True)
class FollowTopic(TicketedCommand):
    """Read a topic without a group, from a position in each of its queues, and wait for messages -> TopicFollowed.

    offsets      queue id -> offset to go on at. With `start` "": a queue that is not named begins at its first message
    start        "first" or "last": begin there, `offsets` is not used; "resume": check that each queue still has its offset;
                 "": go on from what `TopicFollowed` said
    queue_id     one queue; -1: all queues of the topic, at most FOLLOWED_QUEUES_MAX
    first_queue  the queue that is read first, so that a reader far behind in one of them is given the others too
    max_bytes    bytes of records after which no more are read, but at least one message
    filter       only messages that match it; None: all
    pattern      only messages whose path matches this filter over paths (MQTT 5, 4.7); "": all

    Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL, NOT_ALLOWED, ARGUMENT_ILLEGAL (too many queues), POLLING_FULL.
    """

    topic: str
    offsets: Mapping[int, int]
    start: str
    queue_id: int
    first_queue: int
    limit: int
    max_bytes: int
    wait_ms: int = 0
    filter: Filter | None = None
    pattern: str = ""
    epoch: int = -1


@dataclass(slots=True)
class AwaitSettled(TicketedCommand):
    """Wait for the end of leases -> LeasesEnded, when some have ended or `wait_ms` has passed.

    holder     name for the leases of one reader, on its connection; leases that end between two commands are in the next answer
    topic      the topic that was received from
    receipts   leases to watch from now on, besides those of earlier commands; may be empty

    A lease has ended when it is settled or released at this node, whoever did it, or when its time is over. One that is
    extended goes on. Errors: QUOTA (too many leases of one connection), GROUP_ILLEGAL, NOT_ALLOWED.
    """

    holder: str
    group: str
    topic: str
    receipts: list[Receipt]
    wait_ms: int = 0


@dataclass(slots=True)
class HoldQueues(TicketedCommand):
    """Keep messages from retention by age for a reader by offset -> Done (request code 30001 of Headgate).

    name      the reader's name for the hold: the next one of the same name and topic replaces it
    offsets   queue id -> first offset that is held; at most domain.store.read_hold.QUEUES_MAX
    hold_ms   how long, at most domain.store.read_hold.HOLD_MS_MAX; 0: end the hold

    Errors: TOPIC_NOT_FOUND (also when the topic has another epoch), ARGUMENT_ILLEGAL, OVERLOADED.
    """

    name: str
    topic: str
    offsets: Mapping[int, int]
    hold_ms: int
    epoch: int = -1


@dataclass(slots=True)
class Receive(TicketedCommand):
    """Lease messages (POP) -> Received, which is empty when `wait_ms` has passed (RocketMQ code 200050).

    limit         messages at most, 1 to 32
    invisible_ms  length of the leases, above 0 and at most 12 hours
    queue_id      one queue; -1: any queue of the topic, and of the group's retry topic
    filter        only messages that match it, the others are settled for the group; None: all
    from_first    where a group without a position starts: True at the first message; False at the last one, but at the first
                  one of a queue whose messages are all in the newest part of the log
    ordered       True: lease no message whose ordering key has an earlier one that is not settled
    attempt_id    identifies one attempt of the client: a repeated Receive with it gets the messages of the first one; "": none
    client_id     the receiving client, "" when the protocol has none
    fleeting      True: the leases end when the node restarts (domain.store.store_ports.Leases)

    Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL, NOT_ALLOWED, GROUP_ILLEGAL, GROUP_NOT_FOUND, ARGUMENT_ILLEGAL, POLLING_FULL.
    """

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
class AwaitMessages(TicketedCommand):
    """Hold until a group has a message to receive from a topic, without a lease -> MessagesWaiting (RocketMQ code 200054).

    queue_id     one queue; -1: any queue
    ordered      True: a message whose ordering key has an earlier one that is not settled does not count
    attempt_id   messages that a Receive of this attempt was given count too; "": none

    A message that another client has leased does not count. Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL, NOT_ALLOWED.
    """

    group: str
    topic: str
    queue_id: int = -1
    wait_ms: int = 0
    ordered: bool = False
    attempt_id: str = ""


@dataclass(slots=True)
class Acknowledge(TicketedCommand):
    """Settle leases -> Settled, with one outcome a receipt, in order (RocketMQ code 200051).

    topic      the topic that was received from
    receipts   at least one; the retry flag of a receipt says that its message came from the group's retry topic

    Errors of one receipt: RECEIPT_EXPIRED, RECEIPT_INVALID. A lease that is settled already is a success.
    """

    group: str
    topic: str
    receipts: list[Receipt]


@dataclass(slots=True)
class Extend(TicketedCommand):
    """Make leases end `invisible_ms` from now -> Extended, with one outcome a receipt, in order (RocketMQ code 200053).

    invisible_ms   0 to 12 hours; 0 makes the messages available at once (nack)
    untold         True: the receipts never reached the client, so no delivery attempt counts and the messages are available at
                   once; `invisible_ms` has no effect

    Errors of one receipt: RECEIPT_EXPIRED, RECEIPT_INVALID. Refused ARGUMENT_ILLEGAL: `invisible_ms` is out of bounds.
    """

    group: str
    topic: str
    receipts: list[Receipt]
    invisible_ms: int
    untold: bool = False


@dataclass(slots=True)
class DeadLetter(TicketedCommand):
    """Copy a leased message to the dead-letter topic of the group and settle the lease -> Done. Repeating it changes nothing.

    Errors: RECEIPT_INVALID, RECEIPT_EXPIRED, GROUP_NOT_FOUND, and those of Send.
    """

    group: str
    topic: str
    receipt: Receipt


@dataclass(slots=True)
class SendBack(TicketedCommand):
    """Append a message again to the retry topic of a group, for a consumer that cannot handle it -> Done (RocketMQ code 36).

    physical_offset    the message
    delay_level        0: level 3 plus the number of redeliveries; above 0: this level; below 0: the dead-letter topic, now
    retry_max          redeliveries after which the message goes to the dead-letter topic; -1: the limit of the group
    origin_topic       the topic that the client read it from
    origin_message_id  the id that the client knows it by, kept when the record has none

    Errors: GROUP_NOT_FOUND, GROUP_ILLEGAL, MESSAGE_NOT_FOUND, NOT_ALLOWED.
    """

    group: str
    physical_offset: int
    delay_level: int
    retry_max: int = -1
    origin_topic: str = ""
    origin_message_id: str = ""


@dataclass(slots=True)
class CommitOffsets(TicketedCommand):
    """Store positions of a group -> Done (RocketMQ code 15).

    offsets   (topic, queue id, offset of the next message)
    wait      False: the client expects no answer, none is given

    Errors: TOPIC_NOT_FOUND, QUEUE_ILLEGAL, ARGUMENT_ILLEGAL, GROUP_NOT_FOUND, GROUP_ILLEGAL.
    """

    group: str
    offsets: list[tuple[str, int, int]]
    wait: bool = True


@dataclass(slots=True)
class QueryOffset(TicketedCommand):
    """The position of a group in one queue -> Offset (RocketMQ code 14).

    zero_if_absent   True: a group without a position gets 0 while the queue still has its first message in the newest part
                     of the log (ConsumerManageProcessor)

    Errors: OFFSET_NOT_FOUND.
    """

    group: str
    topic: str
    queue_id: int
    zero_if_absent: bool = True


@dataclass(slots=True)
class Watch(TicketedCommand):
    """Deliver messages as they arrive whose path matches `pattern` -> WatchStarted, then WatchedMessages until Unwatch.

    pattern   a filter over paths with `+` and `#` (MQTT 5, 4.7)

    Nothing is stored for a watch: it has no position. A watch loses the oldest messages when more than 4,096 arrive in one loop
    turn; the loss is counted. A second Watch with the same ticket replaces the first.

    Errors: FILTER_ILLEGAL, QUOTA (too many watches of one connection).
    """

    pattern: str


@dataclass(slots=True)
class Unwatch(TicketedCommand):
    """End the watch whose ticket equals this one. No answer."""


@dataclass(slots=True)
class QueryLatest(TicketedCommand):
    """The latest (retained) value of one exact path -> LatestValue, with record None when there is none.

    Errors: TOPIC_ILLEGAL (the path has a wildcard or is too long).
    """

    path: str


@dataclass(slots=True)
class DeleteLatest(TicketedCommand):
    """Remove the latest (retained) value of one exact path without a message -> Done. Errors: TOPIC_ILLEGAL."""

    path: str


@dataclass(slots=True)
class Disconnected(Command):
    """The connection has ended. The last command of a client. No answer.

    reason   a word of the adapter's closed list, which is counted (domain.refusal)
    clean    True: the client ended the connection in the words of its protocol
    """

    reason: str
    clean: bool = False
