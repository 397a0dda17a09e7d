"""Appending and reading messages: the port `MessageLog` over one log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain import limits
from domain import property as properties
from domain.errors import ErrorCode, Failure, StoreError
from domain.message import SYS_PREPARED, Message, Placed
from domain.once import OnceKey
from domain.ports import Clock
from domain.store_ports import ReadResult, StateChange, StoreListener
from domain.store_request import KeyQuery, ReadRequest
from store.delay import parking
from store.delay.wheel import Wheel
from store.held import HeldCalls
from store.hot import HotLog
from store.keys.search import KeySearch
from store.listeners import StoreListeners
from store.log.open_batch import Done
from store.once import OnceAppends
from store.queue.index import QueueIndex
from store.reading import Reading
from store.state.view import StateView
from store.transaction import half
from store.transaction.open_transactions import OpenTransactions
from store.writer import StoreWriter

LATE_MS: Final = 10_000
"""Longest time between storing a message and its becoming readable."""


@final
class Outbox:
    """Turns messages into their stored form: delayed messages and half messages go to topics that no client reads."""

    __slots__ = ("_clock", "_transactions", "_wheel")

    def __init__(self, wheel: Wheel, transactions: OpenTransactions, clock: Clock) -> None:
        self._wheel = wheel
        self._transactions = transactions
        self._clock = clock

    def parked(self, messages: Sequence[Message]) -> tuple[list[Message], list[StateChange]] | Failure:
        """(messages in their stored form, state changes that go with them: those that open their transactions).

        DELIVERY_TIME_ILLEGAL, PROPERTIES_TOO_LARGE, OVERLOADED.
        """
        out: list[Message] = []
        halves: list[Message] = []
        changes: list[StateChange] = []
        now = self._clock.wall_ms()
        for message in messages:
            if message.sys_flag & SYS_PREPARED:
                out.append(half.prepared(message))
                halves.append(out[-1])
            elif properties.may_have_delay(message.properties) and not parking.is_parking_topic(message.topic):
                parked = parking.park(message, now, self._wheel.due_min_ms())
                if isinstance(parked, Failure):
                    return parked
                if not parking.is_parking_topic(parked.topic):
                    # Its time has come already: it is delivered now.
                    change = self._wheel.change_of(parked)
                    changes += [] if change is None else [change]
                out.append(parked)
            else:
                out.append(message)
            if len(out[-1].properties) > limits.PROPERTIES_BYTES_MAX:
                return Failure(ErrorCode.PROPERTIES_TOO_LARGE, "no room for what a delayed or prepared message has to carry")
        opened = self._transactions.begin(halves) if halves else []
        return opened if isinstance(opened, Failure) else (out, [*changes, *opened])


@final
class ClientAppends:
    """Appends what clients send: refused when the store takes nothing, parked when it is not to be read yet."""

    __slots__ = ("_outbox", "_state", "_writer")

    def __init__(self, writer: StoreWriter, outbox: Outbox, state: StateView) -> None:
        self._writer = writer
        self._state = state
        self._outbox = outbox

    def append(
        self,
        messages: Sequence[Message],
        done: Done | None,
        changes: Sequence[StateChange],
        placed_at: Callable[[Sequence[Placed]], None] | None = None,
    ) -> None:
        """As MessageLog.append, with `placed_at` as in `Appender.add`."""
        failure = self._writer.refusal()
        parks = False
        for message in messages:
            if not 0 <= message.queue_id <= limits.QUEUE_ID_MAX:
                text = f"queue {message.queue_id} of {message.topic}: the store takes queues 0 to {limits.QUEUE_ID_MAX}"
                failure = failure or Failure(ErrorCode.QUEUE_ILLEGAL, text)
            parks = parks or message.sys_flag & SYS_PREPARED != 0 or properties.may_have_delay(message.properties)
        if failure is None and parks:
            parked = self._outbox.parked(messages)
            if isinstance(parked, Failure):
                failure = parked
            else:
                messages, halves = parked
                changes = [*changes, *halves]
        for change in changes:
            if failure is None and change.within is not None:
                failure = self._state.refusal(change)
        if failure is None:
            self._writer.put(messages, changes, done, placed_at)
        elif done is not None:
            done(failure)


@final
class StoredLog:
    """`domain.store_ports.MessageLog`."""

    def __init__(
        self,
        client_appends: ClientAppends,
        once: OnceAppends,
        reading: Reading,
        key_search: KeySearch,
        index: QueueIndex,
        hot: HotLog,
        listeners: StoreListeners,
        held: HeldCalls,
    ) -> None:
        self._client_appends = client_appends
        self._once = once
        self._reading = reading
        self._key_search = key_search
        self._index = index
        self._hot = hot
        self._listeners = listeners
        self._held = held

    def listen(self, listener: StoreListener) -> None:
        """MessageLog.listen."""
        self._listeners.all.append(listener)

    def append(self, messages: Sequence[Message], done: Done | None, changes: Sequence[StateChange] = ()) -> None:
        """MessageLog.append. For a delayed or half message, `Placed` is its place in the topic that parks it."""
        self._client_appends.append(messages, done, changes)

    def append_once(
        self, key: OnceKey, messages: Sequence[Message], done: Done | None, changes: Sequence[StateChange] = ()
    ) -> None:
        """MessageLog.append_once."""
        if self._held.holding:
            self._held.add(self.append_once, key, messages, done, changes)
            return
        self._once.append(key, messages, done, changes)

    def read(self, request: ReadRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MessageLog.read."""
        if self._held.holding:
            self._held.add(self.read, request, done)
            return
        done(self._reading.read(request))

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """MessageLog.record_at."""
        if self._held.holding:
            self._held.add(self.record_at, physical_offset, done)
            return
        done(self._reading.at(physical_offset))

    def find(self, query: KeyQuery, done: Callable[[list[bytes] | Failure], None]) -> None:
        """MessageLog.find."""
        if self._held.holding:
            self._held.add(self.find, query, done)
            return
        done(self._key_search.find(query))

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """MessageLog.bounds."""
        done(self._reading.bounds(topic, queue_id))

    def told(self, topic: str, queue_id: int) -> int:
        """MessageLog.told."""
        bounds = self._reading.bounds(topic, queue_id)
        return -1 if isinstance(bounds, Failure) else bounds[1]

    def late_ms(self) -> int:
        """MessageLog.late_ms."""
        return LATE_MS

    def is_hot(self, topic: str, queue_id: int, done: Callable[[bool | Failure], None]) -> None:
        """MessageLog.is_hot."""
        if self._held.holding:
            self._held.add(self.is_hot, topic, queue_id, done)
            return
        try:
            queue = self._index.queue(topic, queue_id)
            hot = queue is None or queue.next == 0 or self._hot.contains(queue)
        except (OSError, StoreError) as error:
            done(Failure(ErrorCode.INTERNAL, f"the index of {topic} queue {queue_id} cannot be read: {error}"))
            return
        done(hot)

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """MessageLog.search."""
        done(self._reading.search(topic, queue_id, timestamp_ms, upper))
