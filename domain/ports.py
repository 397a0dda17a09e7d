"""The ports: what the gateway needs of the world and of the store. Each is narrow, with a real and a simulated implementation.

Answers come as a value to `done`, once, on the loop's thread, possibly before the call returns. Nothing here blocks,
awaits or raises for an expected outcome; a `Failure` is the answer then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from domain.errors import Failure
from domain.event import Leased
from domain.filter.filter import Filter
from domain.message import Message, Placed
from domain.outlook import Outlook
from domain.receipt import Receipt
from domain.topic import Durability, Group, Topic


class Timer(Protocol):
    """A callback that is due."""

    def cancel(self) -> None:
        """Forget it. Harmless when it has run."""


class Clock(Protocol):
    """Time, and the loop that keeps it."""

    def monotonic_ns(self) -> int:
        """Monotonic nanoseconds; comparable only with itself."""

    def wall_ms(self) -> int:
        """Epoch milliseconds; may jump."""

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` at monotonic `when_ns`, or in the next turn when that is past."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` after what is handled in this turn, before the loop waits again."""


class Entropy(Protocol):
    """Randomness."""

    def random(self) -> float:
        """0 <= x < 1."""

    def token(self, size: int) -> bytes:
        """`size` unpredictable bytes."""


class File(Protocol):
    """One append-only file."""

    def append(self, data: bytes) -> None:
        """Write at the end, to the operating system: it survives kill -9 when this returns. Raises OSError."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end."""

    def size(self) -> int:
        """Bytes written so far."""

    def truncate(self, size: int) -> None:
        """Cut the tail off."""

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """fdatasync of all that was appended before this call, off the loop's thread; `done` on the loop's thread."""

    def close(self) -> None:
        """Give the handle back."""


class Disk(Protocol):
    """The data directory. Names are relative, `/` separates folders."""

    def open(self, name: str) -> File:
        """Open for reading and appending; made when absent, its folder too."""

    def names(self, folder: str) -> list[str]:
        """Names of the files directly in `folder`, sorted; empty when it does not exist."""

    def read_all(self, name: str) -> bytes | None:
        """A small file whole, None when absent."""

    def replace(self, name: str, data: bytes) -> None:
        """Write a small file atomically and durably: the old or the new content, never a mixture."""

    def remove(self, name: str) -> None:
        """Delete; harmless when absent."""

    def free_ratio(self) -> float:
        """Free share of the volume, 0 to 1."""


@dataclass(slots=True)
class StateChange:
    """One key of one state space set to `value`, or removed with None. Spaces are short words: `session`, `latest`, …

    at   where in the log the value stands, once the store knows; -1: it does not, or need not
    """

    space: str
    key: bytes
    value: bytes | None
    at: int = field(default=-1, compare=False)


@dataclass(slots=True)
class ReadResult:
    """Records of one queue. `status` as in event.Pulled. `pop_ms`: of the leases that they are, 0 when they are none."""

    status: str
    records: list[bytes]
    next_offset: int
    min_offset: int
    max_offset: int
    pop_ms: int = 0


@dataclass(slots=True)
class LeaseResult:
    """What a lease call got; `rest` about how many more are free now. `pop_ms` rises strictly per (group, queue).

    unfinished   the call has looked at as many unwanted messages as one call may; what comes behind them is for the next one
    """

    messages: list[Leased]
    pop_ms: int
    rest: int
    unfinished: bool = False


class StoreListener(Protocol):
    """Told by the store, on the loop's thread, after the fact."""

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """These records have become readable, in offset order."""

    def freed(self, group: str, topic: str) -> None:
        """Messages of `topic` that `group` had leased, or that an order held back, can be leased now."""


class MessageStore(Protocol):
    """The log seen from the gateway. Local (`store.engine.LogStore`) or over the network."""

    outlook: Outlook

    def listen(self, listener: StoreListener) -> None:
        """Add a listener."""

    def append(
        self,
        messages: Sequence[Message],
        done: Callable[[list[Placed] | Failure], None] | None,
        changes: Sequence[StateChange] = (),
    ) -> None:
        """Append placed messages (topic exists, queue id final, UNIQ_KEY in place) and state changes in one commit.

        `done` is called when every topic's durability holds; an append without messages takes the store's default level.
        Failure: STORE_UNAVAILABLE, OVERLOADED, FLUSH_TIMEOUT (stored, but the promise is not known to hold).
        """

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        limit: int,
        max_bytes: int,
        wanted: Filter | None,
        done: Callable[[ReadResult | Failure], None],
    ) -> None:
        """Records from `offset` on: at most `limit`, and at most `max_bytes` but always one."""

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """The record that begins at `physical_offset`; MESSAGE_NOT_FOUND."""

    def find(
        self,
        topic: str,
        key: str,
        begin_ms: int,
        end_ms: int,
        limit: int,
        max_bytes: int,
        unique: bool,
        done: Callable[[list[bytes] | Failure], None],
    ) -> None:
        """Readable records of `topic` with `key` as their UNIQ_KEY or, unless `unique`, as one of the words of their KEYS.

        Stored from `begin_ms` to `end_ms`, both included. Newest first; at most `limit`, at most `max_bytes` but always one.
        """

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """(first offset still there, next offset to be readable); (0, 0) for a queue never written."""

    def is_hot(self, topic: str, queue_id: int, done: Callable[[bool | Failure], None]) -> None:
        """True when all that the queue ever had is still there, and in the newest part of the log; also when it had nothing."""

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """Offset by store time: first at or after; `upper`: last at or before."""

    def lease(
        self,
        group: str,
        topic: str,
        queue_id: int,
        limit: int,
        invisible_ms: int,
        wanted: Filter | None,
        from_first: bool,
        ordered: bool,
        attempt_id: str,
        fleeting: bool,
        done: Callable[[LeaseResult | Failure], None],
    ) -> None:
        """Lease free messages of one queue, or of any (-1, in turn), or of all by priority (priority.looking).

        Messages that are not `wanted` are settled in passing.

        Redelivered ones carry RECONSUMETIMES patched. An empty result is an answer. Leases survive a restart, `fleeting`
        ones until `lapse`.
        """

    def withdraw(self, group: str, topic: str, receipts: Sequence[Receipt], wake: bool = False) -> None:
        """Free leases whose messages were not delivered after all: that was no attempt. `wake`: tell who waits for messages."""

    def lapse(self) -> None:
        """Fleeting leases that a process before this one gave out, and that nobody has settled or moved since, end now."""

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """Retire leases, durably before `done`. Already settled is success; RECEIPT_EXPIRED when the lease is another's now, or
        of before a reset; RECEIPT_INVALID when there never can have been one."""

    def extend(
        self,
        group: str,
        topic: str,
        receipts: Sequence[Receipt],
        invisible_ms: int,
        done: Callable[[list[Receipt | Failure] | Failure], None],
    ) -> None:
        """Move the ends of leases; new receipts. `invisible_ms` 0 frees at once."""

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        """The group's position: its committed offset, which is its lease floor; OFFSET_NOT_FOUND."""

    def commit(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """Set positions; they may go back."""

    def pull(
        self,
        group: str,
        member: str,
        retry_topic: str,
        topic: str,
        queue_id: int,
        offset: int,
        limit: int,
        max_bytes: int,
        wanted: Filter | None,
        done: Callable[[ReadResult | Failure], None],
    ) -> None:
        """`read` for a member of a clustering group: where others of the group lease, it leases what it returns.

        Then it skips what others hold or have settled, and redelivered records carry RECONSUMETIMES patched. Its leases end by
        `report`, by `release`, when somebody else pulls from the queue, or when it has not shown that it lives for two minutes.
        `retry_topic`: where messages go that came back behind its offset and that nobody leases. "" when it reads none: then it
        is given these itself, in a result of their own, whose next offset is where it was.
        """

    def report(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """`commit` for a member that pulls: where others lease, it settles what the member holds below, and never goes back."""

    def renew(self, group: str, member: str, anew: bool) -> None:
        """A member that pulls lives. `anew`: on another connection, so that the last answer on the old one may be lost."""

    def release(self, group: str, member: str, kept: Collection[str]) -> None:
        """A member does not pull any more, except from the topics `kept`: what it holds is free."""

    def reset(self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None]) -> None:
        """Set positions, and forget all leases: everything from there on is free and new."""

    def drop_group(self, group: str, done: Callable[[None | Failure], None]) -> None:
        """Forget positions and leases of a group."""


class Metadata(Protocol):
    """Topics and groups: read from memory, changed durably."""

    def topic(self, name: str) -> Topic | None:
        """One topic."""

    def topics(self) -> list[Topic]:
        """All, by name."""

    def put_topic(self, topic: Topic, done: Callable[[None | Failure], None]) -> None:
        """Create or replace."""

    def delete_topic(self, name: str, done: Callable[[None | Failure], None]) -> None:
        """Delete, with its messages' index."""

    def group(self, name: str) -> Group | None:
        """One group."""

    def groups(self) -> list[Group]:
        """All, by name."""

    def put_group(self, group: Group, done: Callable[[None | Failure], None]) -> None:
        """Create or replace."""

    def delete_group(self, name: str, done: Callable[[None | Failure], None]) -> None:
        """Delete."""

    def default_durability(self) -> Durability:
        """What new topics get."""


class State(Protocol):
    """The compacted view of state records: sessions, retained values, anything small that a use case keeps by key."""

    def get(self, space: str, key: bytes) -> bytes | None:
        """One value as last made durable."""

    def scan(self, space: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) pairs whose key begins with `prefix`, in key order."""

    def keys(self, space: str, prefix: bytes, start: bytes, limit: int) -> list[bytes]:
        """At most `limit` keys that begin with `prefix`, from `start` on, in key order: a slice of a walk through many."""

    def size(self, space: str) -> tuple[int, int]:
        """(keys, bytes of keys and values) of one space."""

    def put(self, changes: Sequence[StateChange], done: Callable[[None | Failure], None] | None) -> None:
        """Change keys, all or none, durably before `done` at the store's default level."""
