"""The ports to the store: log, leases, positions, pulls, metadata, state. `domain.store.message_store` has them all together.

Answers come as a value to `done`, once, on the loop's thread, possibly before the call returns. Nothing here blocks,
awaits or raises for an expected outcome; a `Failure` is the answer then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from domain.errors import Failure
from domain.event import Leased
from domain.message.message import Message, Placed
from domain.message.once import OnceKey
from domain.message.receipt import Receipt
from domain.store.store_request import KeyQuery, LeaseRequest, PullRequest, ReadRequest
from domain.store.store_request import ReadResult as ReadResult  # noqa: PLC0414, those who import it know no other place
from domain.topic.topic import Durability, Group, Topic

PAIRS_BYTES: Final = 256 * 1024
"""Bytes of keys and values after which `State.pairs` ends a slice."""


@dataclass(frozen=True, slots=True)
class SpaceLimit:
    """The most that one space may hold. Values that are not durable yet are not counted: those of one commit may exceed it.

    bytes_max   bytes of keys and values
    """

    keys_max: int
    bytes_max: int


@dataclass(slots=True)
class StateChange:
    """One key of one state space set or removed.

    space   short word: `session`, `latest`, …
    key     any bytes
    value   the new value, None: the key is removed
    at      physical offset of the value in the log, set by the store; -1: not known, or not needed
    within  a change that would make the space exceed this is refused: QUOTA. None: the space has no limit
    """

    space: str
    key: bytes
    value: bytes | None
    at: int = field(default=-1, compare=False)
    within: SpaceLimit | None = field(default=None, compare=False)


@dataclass(slots=True)
class LeaseResult:
    """The messages that a lease call was given.

    messages     in the order in which they were leased
    pop_ms       pop time of these leases, epoch milliseconds; rises strictly per (group, queue)
    remaining    about how many more messages are free now
    unfinished   the call has looked at as many unwanted messages as one call may; the next call goes on behind them
    """

    messages: list[Leased]
    pop_ms: int
    remaining: int
    unfinished: bool = False


class StoreListener(Protocol):
    """Called by the store, on the loop's thread, after the change."""

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """These records have become readable, in offset order."""

    def freed(self, group: str, topic: str) -> None:
        """Messages of `topic` that were leased by `group`, or held back by ordering, can be leased now."""


class MessageLog(Protocol):
    """The messages of all queues."""

    def listen(self, listener: StoreListener) -> None:
        """Add a listener. Listeners are called in the order in which they were added."""

    def append(
        self,
        messages: Sequence[Message],
        done: Callable[[list[Placed] | Failure], None] | None,
        changes: Sequence[StateChange] = (),
    ) -> None:
        """Append messages and state changes in one commit. The topics exist, queue ids are final, UNIQ_KEY is in place.

        `done` is called when every topic's durability holds; an append without messages takes the store's default level.
        Failure: STORE_UNAVAILABLE, OVERLOADED, QUEUE_ILLEGAL (an id below 0 or above limits.QUEUE_ID_MAX: nothing of the
        append is stored), FLUSH_TIMEOUT (stored, but the promise is not known to hold), QUOTA (`StateChange.within`).
        """

    def append_once(
        self,
        key: OnceKey,
        messages: Sequence[Message],
        done: Callable[[list[Placed] | Failure], None] | None,
        changes: Sequence[StateChange] = (),
    ) -> None:
        """As `append`, but once for each key: a repetition appends nothing and gets the first answer again.

        The key is in the commit of the messages. It is known for `once_window_ms`, unless more than `once_keys_max` newer ones
        came since, or the topic was deleted. A repetition while the first append is under way waits for its answer. Failure
        besides those of `append`: KEY_REUSED, the digest is another one; FLUSH_TIMEOUT also for a repetition of an append that
        was answered so.
        """

    def read(self, request: ReadRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """Records of one queue; INTERNAL when the log cannot be read."""

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """The record that begins at `physical_offset` of the log; MESSAGE_NOT_FOUND."""

    def find(self, query: KeyQuery, done: Callable[[list[bytes] | Failure], None]) -> None:
        """Readable records by key, newest first."""

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """(first offset still there, next offset to be readable); (0, 0) for a queue never written."""

    def notified(self, topic: str, queue_id: int) -> int:
        """Offset after the last record of a queue that listeners were notified of; -1: unknown. Answered at once.

        They will be notified of all later records. The end of the queue (`bounds`) may be higher when the log is remote.
        """

    def late_ms(self) -> int:
        """Current upper limit of the time from the store time of a message to its notification, in ms."""

    def is_hot(self, topic: str, queue_id: int, done: Callable[[bool | Failure], None]) -> None:
        """True when nothing of the queue was deleted and all of it is in the newest part of the log; also when it is empty."""

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """Offset by store time: first at or after `timestamp_ms`; `upper`: last at or before."""


class Leases(Protocol):
    """Messages that a group has received and not yet settled. A lease survives a restart of the store."""

    def lease(self, request: LeaseRequest, done: Callable[[LeaseResult | Failure], None]) -> None:
        """Lease free messages. A redelivered one carries its new RECONSUMETIMES. An empty result is an answer."""

    def withdraw(self, group: str, topic: str, receipts: Sequence[Receipt], wake: bool = False) -> None:
        """End leases whose messages were not delivered: no attempt is counted. `wake`: notify the listeners (`freed`)."""

    def lapse(self) -> None:
        """End the fleeting leases that were given out before this start of the store, unless settled or extended since."""

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """Settle leases, durably before `done`; one outcome a receipt, in order. Settling twice is success.

        RECEIPT_EXPIRED: the message was leased again since, or the group was reset. RECEIPT_INVALID: never leased.
        """

    def extend(
        self,
        group: str,
        topic: str,
        receipts: Sequence[Receipt],
        invisible_ms: int,
        done: Callable[[list[Receipt | Failure] | Failure], None],
    ) -> None:
        """Let leases end `invisible_ms` from now; new receipts, in order. 0 frees the messages at once."""


class DeadLetterMoves(Protocol):
    """Dead letters, where the store copies the message itself. Elsewhere the use case appends the copy."""

    def move(
        self,
        group: str,
        topic: str,
        receipt: Receipt,
        record: bytes | None,
        done: Callable[[None | Failure], None] | None,
    ) -> None:
        """Copy a leased message to the dead-letter topic of `group`, then settle its lease, then call `done`.

        `record`: the message, None: not known here. Moving twice leaves two copies. Failure: RECEIPT_INVALID.
        """


class GroupPositions(Protocol):
    """The committed offset of each group on each queue: everything below it is settled."""

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        """The group's newest position that could be acknowledged at the level of its topic; OFFSET_NOT_FOUND."""

    def commit(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """Set positions, given as (topic, queue id, offset). A position may go back."""

    def reset(self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None]) -> None:
        """Set positions and end all leases there: every message from the position on is free and new."""

    def drop_group(self, group: str, done: Callable[[None | Failure], None]) -> None:
        """Delete a group: all its positions and leases, then its configuration. The next start finishes what has begun.

        After a Failure, which says that the store takes nothing now, what has begun is finished when it does again.
        """


class MemberPulls(Protocol):
    """Pulls by members of a clustering group. Where other members receive, a pull leases what it returns."""

    def pull(self, request: PullRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """Read for a member. On a queue where others of the group lease messages, the member leases what it is given.

        There it skips what others lease or have settled, and a redelivered record carries its new RECONSUMETIMES. The
        member's leases end by `report`, by `release`, when another member pulls from the queue, or two minutes after the
        last `pull` or `renew`. Messages that came back behind the offset, for a member without retry topic, are a result of
        their own whose next offset is the one asked for.
        """

    def report(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """Commit for a member that pulls. Where others lease, it settles the member's leases below, and never goes back."""

    def renew(self, group: str, member: str, reconnected: bool) -> None:
        """A member is alive. `reconnected`: it has a new connection, so the last answer on the old one may be lost."""

    def release(self, group: str, member: str, kept: Collection[str]) -> None:
        """A member pulls from the topics `kept` only: its leases in other topics end."""


class Metadata(Protocol):
    """Topics and groups: read from memory, changed durably."""

    def topic(self, name: str) -> Topic | None:
        """A topic by its name; None: it is not configured."""

    def topics(self) -> list[Topic]:
        """All, by name. With a million of them it takes seconds: ask for names where these are enough."""

    def topic_names(self) -> list[str]:
        """The names of all topics, ascending."""

    def lite_topics(self) -> list[Topic]:
        """Topics of type LITE, by name."""

    def topics_after(self, name: str, limit: int) -> list[Topic]:
        """At most `limit` topics by name, from the one behind `name` on: a slice of a walk over all."""

    def topic_count(self) -> int:
        """Number of topics that are configured."""

    def put_topic(self, topic: Topic, done: Callable[[None | Failure], None]) -> None:
        """Create or replace."""

    def delete_topic(self, name: str, done: Callable[[None | Failure], None]) -> None:
        """Delete, with its messages' index."""

    def follow_topics(self, changed: Callable[[str], None]) -> None:
        """From now on `changed` gets the name of each topic that is made, changed or deleted, once that is durable."""

    def group(self, name: str) -> Group | None:
        """A group by its name; None: it is not configured."""

    def learn_groups(self, names: Iterable[str], done: Callable[[None | Failure], None]) -> None:
        """Read groups that are kept elsewhere into memory, where they exist: then `group` knows them. A Failure: not all."""

    def groups(self) -> list[Group]:
        """All, by name."""

    def groups_after(self, name: str, limit: int) -> list[Group]:
        """At most `limit` groups by name, from the one behind `name` on: a slice of a walk over all."""

    def put_group(self, group: Group, done: Callable[[None | Failure], None]) -> None:
        """Create or replace. GroupPositions.drop_group deletes."""

    def default_durability(self) -> Durability:
        """The durability of new topics."""


@dataclass(slots=True)
class Expected:
    """A condition of a change of state: the value of one key as last made durable.

    value   the value, None: the key has none
    """

    space: str
    key: bytes
    value: bytes | None


@dataclass(slots=True)
class StatePairs:
    """A slice of a space.

    pairs      (key, value) in key order
    next_key   key at which the next slice begins, None: there is no further one
    """

    pairs: list[tuple[bytes, bytes]]
    next_key: bytes | None


class State(Protocol):
    """The compacted view of state records: sessions, retained values, anything small that a use case keeps by key."""

    def get(self, space: str, key: bytes, done: Callable[[bytes | None | Failure], None]) -> None:
        """One value as last made durable, None: the key has none."""

    def pairs(self, space: str, prefix: bytes, start: bytes, limit: int, done: Callable[[StatePairs | Failure], None]) -> None:
        """At most `limit` pairs whose key begins with `prefix`, from the key `start` on: a slice of a walk through many.

        A slice ends with the pair that makes it PAIRS_BYTES long.
        """

    def keys(self, space: str, prefix: bytes, start: bytes, limit: int, done: Callable[[list[bytes] | Failure], None]) -> None:
        """At most `limit` keys that begin with `prefix`, from `start` on, in key order: a slice of a walk through many."""

    def size(self, space: str, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """(keys, bytes of keys and values) of one space."""

    def put(
        self,
        changes: Sequence[StateChange],
        done: Callable[[None | Failure], None] | None,
        expected: Sequence[Expected] = (),
    ) -> None:
        """Change keys, all or none, durably before `done` at the store's default level.

        Changes that are made are answered in the order of the calls: sessions deliver in that order.

        CHANGED: one of `expected` is not so, or is about to change; nothing was changed.
        """

    def follow(self, space: str, changed: Callable[[bytes, bytes | None], None]) -> None:
        """Keep up with a space of few keys: `changed` gets each key and value that is there, before `follow` returns.

        Later it gets each change once it is durable, in their order and before `done` of the change; None: the key is removed.
        """
