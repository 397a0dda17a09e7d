"""Accepted batches that are not written: the open one, which takes appends, and closed ones that wait for their write.

    append -> room() -> the open batch -> seal() -> closed batches, in order -> group commit writes them

A batch has effects at each durability level. Each turn of the loop in which something is accepted is followed by one call of
group commit, at the end of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import final

from domain.errors import Failure
from domain.message import record
from domain.message.message import Message, Placed
from domain.ports import Clock
from domain.store.store_ports import StateChange
from store.events import StoreEvents
from store.log import batch
from store.log.store_time import StoreTime
from store.queue.queue import Queue
from store.settings import StoreSettings
from store.state import change

Done = Callable[[list[Placed] | Failure], None]
"""Callback with the answer to an append: the places of its messages, or the failure."""


@final
class Pending:
    """One append that waits for its durability level.

    done          its callback; None without a waiter, or after the answer
    flushed       True when it waits for a sync, else for the write
    local         True when its answer does not wait for other replicas
    """

    __slots__ = ("accepted_ns", "changes", "done", "flushed", "local", "placed")

    def __init__(
        self,
        done: Done | None,
        placed: list[Placed],
        changes: Sequence[StateChange],
        flushed: bool,
        accepted_ns: int,
        local: bool = False,
    ) -> None:
        self.done = done
        self.placed = placed
        self.changes = changes
        self.flushed = flushed
        self.accepted_ns = accepted_ns
        self.local = local


@final
class Effects:
    """Effects of a batch that has reached one durability level.

    arrivals   queue -> records that become readable, in offset order
    """

    __slots__ = ("arrivals", "pending", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.arrivals: dict[Queue, list[bytes]] = {}
        self.pending: list[Pending] = []

    def fail(self, failure: Failure, events: StoreEvents) -> None:
        """Answer all pending appends with `failure`: the batch never reaches the level."""
        for pending in self.pending:
            done, pending.done = pending.done, None
            if done is not None:
                events.run("the answer to an append", done, failure)


@final
class OpenBatch:
    """The batch that takes appends.

    end           position of the next record
    first_ms      lower bound of the store time of its oldest record, in epoch ms
    parts         encoded records, in order
    reserved      bytes kept free for that record
    page          effects after the write (to the page cache of the operating system)
    flushed       effects after the sync
    """

    __slots__ = (
        "accepted_ns", "base", "changes", "end", "first_ms", "flushed", "messages", "page", "parts", "places", "reserved",
    )  # fmt: skip

    def __init__(self, base: int, first_ms: int, accepted_ns: int) -> None:
        self.base = base
        self.first_ms = first_ms
        self.accepted_ns = accepted_ns
        self.end = base + batch.HEADER_BYTES
        self.parts: list[bytes] = []
        self.places: list[int] = []
        self.messages: list[Message] = []
        self.changes: list[StateChange] = []
        self.reserved = change.RECORD_OVERHEAD_BYTES
        self.page = Effects(base)
        self.flushed = Effects(base)

    def seal(self, store_ms: int, store_host: bytes) -> None:
        """Close the batch: the state changes become one record behind the messages."""
        if self.changes:
            message = Message(change.STATE_TOPIC, change.encode(self.changes), queue_id=0)
            state = record.encode(message, 0, self.end, store_ms, store_host)
            change.locate(self.changes, self.end + record.Record(state).body_at)
            self.parts.append(state)
            self.end += len(state)


def overdue(waiting: Iterable[Effects], before_ns: int) -> list[Done]:
    """Callbacks of appends whose batch was opened at `before_ns` or before; removes them from the appends."""
    found: list[Done] = []
    for effects in waiting:
        for pending in effects.pending:
            if pending.done is not None and pending.accepted_ns <= before_ns:
                found.append(pending.done)
                pending.done = None
    return found


@final
class AcceptedBatches:
    """The end of the log for appends.

    base        base of the segment of the next batch
    store_ms    newest store time, in epoch ms
    now_ms      time of the last `stamp`, in epoch ms: before `store_ms` when the clock was ahead then
    open        the batch that takes appends; None: the next append opens one
    sealed      closed batches to write, in order; None closes the segment
    scheduled   True when `_turn` will run at the end of this turn
    """

    __slots__ = ("_clock", "_config", "_time", "_turn", "base", "end", "now_ms", "open", "scheduled", "sealed", "store_ms")

    def __init__(
        self, base: int, end: int, clock: Clock, time: StoreTime, config: StoreSettings, turn: Callable[[], None]
    ) -> None:  # fmt: skip
        self.base = base
        self.end = end
        self.store_ms = self.now_ms = 0
        self._time = time
        self.open: OpenBatch | None = None
        self.sealed: list[OpenBatch | None] = []
        self.scheduled = False
        self._clock = clock
        self._config = config
        self._turn = turn

    def begin(self, base: int, end: int, store_ms: int) -> None:
        """Begin at the end of the log, after recovery."""
        self.base = base
        self.end = end
        self.store_ms = store_ms

    def room(self, size: int, state: int = 0) -> OpenBatch:
        """Open batch with room for `size` bytes of records and `state` bytes of changes in the same segment."""
        current = self.open
        if current is not None and current.end + current.reserved + size + state - self.base <= self._config.segment_bytes:
            current.reserved += state
            self.wake()  # the batch may have been left open for the next sync, without a scheduled turn
            return current
        self.seal()
        if self.end + batch.HEADER_BYTES + change.RECORD_OVERHEAD_BYTES + size + state - self.base > self._config.segment_bytes:
            self.roll()
        current = self.open = OpenBatch(self.end, self.stamp(), self._clock.monotonic_ns())
        current.reserved += state
        self.end = current.end
        self.wake()
        return current

    def taken_bytes(self) -> int:
        """Position behind all records that were accepted, and behind the changes of the open batch as they may be written."""
        return self.end if self.open is None else self.end + self.open.reserved

    def stamp(self) -> int:
        """Store time of a new batch, in epoch ms: `StoreTime`, but never decreasing, so that queues are sorted by it."""
        now_ms = self._clock.wall_ms()
        if now_ms >= self._time.limit_ms:
            now_ms = self._time.now_ms()
        self.now_ms = now_ms
        self.store_ms = max(self.store_ms, now_ms)
        return self.store_ms

    def roll(self) -> None:
        """Close the segment after the last accepted byte and begin the next one; does nothing when the segment is empty."""
        self.seal()
        if self.end == self.base:
            return
        self.sealed.append(None)
        self.end += batch.FILLER_BYTES
        self.base = self.end
        self.wake()

    def seal(self) -> None:
        """Close the open batch, if there is one."""
        current = self.open
        if current is not None:
            self.open = None
            current.seal(self.store_ms, self._config.store_host)
            self.end = current.end
            self.sealed.append(current)

    def wake(self) -> None:
        """Schedule the write at the end of this turn."""
        if not self.scheduled:
            self.scheduled = True
            self._clock.call_soon(self._turn)

    def effects(self) -> list[Effects]:
        """Effects of the closed batches, one for each durability level."""
        return [effects for sealed in self.sealed if sealed is not None for effects in (sealed.page, sealed.flushed)]
