"""Appending and reading messages: the port `MessageLog` over one log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.message.message import Message
from domain.message.once import OnceKey
from domain.store.store_ports import ReadResult, StateChange, StoreListener
from domain.store.store_request import KeyQuery, ReadRequest
from store.appends.client_appends import ClientAppends
from store.appends.once import OnceAppends
from store.keys.search import KeySearch
from store.log.open_batch import Done
from store.queue.index import QueueIndex
from store.reads.hot import HotLog
from store.reads.listeners import StoreListeners
from store.reads.reading import Reading
from store.reads.repair_waits import DamageFailure
from store.reads.startup_queue import StartupQueue

LATE_MS: Final = 10_000
"""Longest time between storing a message and its becoming readable."""


@final
class StoredLog:
    """`domain.store.store_ports.MessageLog`."""

    def __init__(
        self,
        client_appends: ClientAppends,
        once: OnceAppends,
        reading: Reading,
        key_search: KeySearch,
        index: QueueIndex,
        hot: HotLog,
        listeners: StoreListeners,
        held: StartupQueue,
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
        result = self._reading.read(request)
        if isinstance(result, Failure) and self._held.repairs.hold(result, done, partial(self.read, request, done)):
            return
        done(result)

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """MessageLog.record_at."""
        if self._held.holding:
            self._held.add(self.record_at, physical_offset, done)
            return
        found = self._reading.at(physical_offset)
        if isinstance(found, Failure) and self._held.repairs.hold(found, done, partial(self.record_at, physical_offset, done)):
            return
        done(found)

    def find(self, query: KeyQuery, done: Callable[[list[bytes] | Failure], None]) -> None:
        """MessageLog.find."""
        if self._held.holding:
            self._held.add(self.find, query, done)
            return
        repairs = self._held.repairs
        found = self._key_search.find(query, repairs.active)
        if isinstance(found, DamageFailure):
            if repairs.hold(found, done, partial(self.find, query, done)):
                return
            found = self._key_search.find(query)  # no replica has the rest now: as on a single node
        done(found)

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """MessageLog.bounds."""
        done(self._reading.bounds(topic, queue_id))

    def notified(self, topic: str, queue_id: int) -> int:
        """MessageLog.notified."""
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
