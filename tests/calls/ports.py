"""The ports of a store on another node: each method is one call over a `StoreLink`.

`done` gets what the port says, or a failure of the link: STORE_UNAVAILABLE or OVERLOADED (`StoreLink.call`). A method without
`done` may fail without anybody being told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, final

from domain.errors import Failure
from domain.message import Message, Placed
from domain.once import OnceKey
from domain.receipt import Receipt
from domain.store_ports import Expected, LeaseResult, ReadResult, StateChange, StatePairs, StoreListener
from domain.store_request import KeyQuery, LeaseRequest, PullRequest, ReadRequest
from tests.calls import operations as of
from tests.calls.link import StoreLink

Appended = Callable[[list[Placed] | Failure], None]

LATE_MS: Final = 40_000
"""Longest time between storing a message and telling of it here: that of the store, and how long the link may be broken."""


@final
class RemoteLog:
    """`MessageLog`.

    `append` with `done` gives each append a key, so that it is carried out once, however often the link has to send it
    (docs/decisions/0037-calls-between-nodes.md).

    _scope      names this life of this node; keys are unique in it
    _appends    number of keys so far
    _told       offset behind the last record that was told, by topic and queue
    listeners   who is told of new records and freed messages, in the order in which they were added
    """

    def __init__(self, link: StoreLink, scope: str) -> None:
        self._link = link
        self._scope = scope
        self._appends = 0
        self._told: dict[tuple[str, int], int] = {}
        self.listeners: list[StoreListener] = []

    def listen(self, listener: StoreListener) -> None:
        """MessageLog.listen."""
        self.listeners.append(listener)

    def append(self, messages: Sequence[Message], done: Appended | None, changes: Sequence[StateChange] = ()) -> None:
        """MessageLog.append."""
        if done is None:
            self._link.call(of.APPEND_PLAIN, None, messages, changes)
            return
        self._appends += 1
        self.append_once(OnceKey(self._scope, self._appends.to_bytes(8, "big")), messages, done, changes)

    def append_once(
        self, key: OnceKey, messages: Sequence[Message], done: Appended | None, changes: Sequence[StateChange] = ()
    ) -> None:
        """MessageLog.append_once."""
        self._link.call(of.APPEND, done, key, messages, changes)

    def read(self, request: ReadRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MessageLog.read."""
        self._link.call(of.READ, done, request)

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """MessageLog.record_at."""
        self._link.call(of.RECORD_AT, done, physical_offset)

    def find(self, query: KeyQuery, done: Callable[[list[bytes] | Failure], None]) -> None:
        """MessageLog.find."""
        self._link.call(of.FIND, done, query)

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """MessageLog.bounds."""
        self._link.call(of.BOUNDS, done, topic, queue_id)

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """The store tells of new records: tell the listeners."""
        self._told[topic, queue_id] = int.from_bytes(records[-1][20:28], "big") + 1
        for listener in self.listeners:
            listener.arrived(topic, queue_id, records)

    def freed(self, group: str, topic: str) -> None:
        """The store tells of freed messages: tell the listeners."""
        for listener in self.listeners:
            listener.freed(group, topic)

    def told(self, topic: str, queue_id: int) -> int:
        """MessageLog.told."""
        return self._told.get((topic, queue_id), -1)

    def late_ms(self) -> int:
        """MessageLog.late_ms."""
        return LATE_MS

    def is_hot(self, topic: str, queue_id: int, done: Callable[[bool | Failure], None]) -> None:
        """MessageLog.is_hot."""
        self._link.call(of.IS_HOT, done, topic, queue_id)

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """MessageLog.search."""
        self._link.call(of.SEARCH, done, topic, queue_id, timestamp_ms, upper)


class RemoteLeases:
    """`Leases`. A lease that was asked for and not answered may exist; its messages come again when it ends."""

    def __init__(self, link: StoreLink) -> None:
        self._link = link

    def lease(self, request: LeaseRequest, done: Callable[[LeaseResult | Failure], None]) -> None:
        """Leases.lease."""
        self._link.call(of.LEASE, done, request)

    def withdraw(self, group: str, topic: str, receipts: Sequence[Receipt], wake: bool = False) -> None:
        """Leases.withdraw."""
        self._link.call(of.WITHDRAW, None, group, topic, receipts, wake)

    def lapse(self) -> None:
        """Leases.lapse: does nothing, the store lets leases lapse by itself when it starts."""

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """Leases.settle."""
        self._link.call(of.SETTLE, done, group, topic, receipts)

    def extend(
        self,
        group: str,
        topic: str,
        receipts: Sequence[Receipt],
        invisible_ms: int,
        done: Callable[[list[Receipt | Failure] | Failure], None],
    ) -> None:
        """Leases.extend."""
        self._link.call(of.EXTEND, done, group, topic, receipts, invisible_ms)


@final
class RemotePositions:
    """`GroupPositions`."""

    def __init__(self, link: StoreLink) -> None:
        self._link = link

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        """GroupPositions.offset."""
        self._link.call(of.OFFSET, done, group, topic, queue_id)

    def commit(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """GroupPositions.commit."""
        self._link.call(of.COMMIT, done, group, offsets)

    def reset(self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None]) -> None:
        """GroupPositions.reset."""
        self._link.call(of.RESET, done, group, offsets)

    def drop_group(self, group: str, done: Callable[[None | Failure], None]) -> None:
        """GroupPositions.drop_group."""
        self._link.call(of.DROP_GROUP, done, group)


@final
class RemotePulls:
    """`MemberPulls`."""

    def __init__(self, link: StoreLink) -> None:
        self._link = link

    def pull(self, request: PullRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MemberPulls.pull."""
        self._link.call(of.PULL, done, request)

    def report(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """MemberPulls.report."""
        self._link.call(of.REPORT, done, group, offsets)

    def renew(self, group: str, member: str, reconnected: bool) -> None:
        """MemberPulls.renew."""
        self._link.call(of.RENEW, None, group, member, reconnected)

    def release(self, group: str, member: str, kept: Collection[str]) -> None:
        """MemberPulls.release."""
        self._link.call(of.RELEASE, None, group, member, list(kept))


class RemoteState:
    """`State`, except `follow`: the link carries nothing yet that a store tells unasked."""

    def __init__(self, link: StoreLink) -> None:
        self._link = link

    def get(self, space: str, key: bytes, done: Callable[[bytes | None | Failure], None]) -> None:
        """State.get."""
        self._link.call(of.STATE_GET, done, space, key)

    def pairs(self, space: str, prefix: bytes, start: bytes, limit: int, done: Callable[[StatePairs | Failure], None]) -> None:
        """State.pairs."""
        self._link.call(of.STATE_PAIRS, done, space, prefix, start, limit)

    def keys(self, space: str, prefix: bytes, start: bytes, limit: int, done: Callable[[list[bytes] | Failure], None]) -> None:
        """State.keys."""
        self._link.call(of.STATE_KEYS, done, space, prefix, start, limit)

    def size(self, space: str, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """State.size."""
        self._link.call(of.STATE_SIZE, done, space)

    def put(
        self,
        changes: Sequence[StateChange],
        done: Callable[[None | Failure], None] | None,
        expected: Sequence[Expected] = (),
    ) -> None:
        """State.put."""
        self._link.call(of.STATE_PUT, done, changes, expected)
