"""The batch that takes appends, and its effects at each durability level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import final

from domain.errors import Failure
from domain.message import record
from domain.message.message import Message, Placed
from domain.store.store_ports import StateChange
from store.events import StoreEvents
from store.log import batch
from store.queue.queue import Queue
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
    places        positions of the messages' records
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
