"""The batch that appends go into, and what becomes true when it has reached a durability level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain import record
from domain.errors import Failure
from domain.message import Message, Placed
from domain.store_ports import StateChange
from store.log import batch
from store.queue.queue import Queue
from store.state import change

Done = Callable[[list[Placed] | Failure], None]
"""The answer to an append: where its messages are, or why it was refused."""


@final
class Pending:
    """One append that waits for its level."""

    __slots__ = ("accepted_ns", "changes", "done", "flushed", "placed")

    def __init__(
        self, done: Done | None, placed: list[Placed], changes: Sequence[StateChange], flushed: bool, accepted_ns: int
    ) -> None:
        self.done = done
        self.placed = placed
        self.changes = changes
        self.flushed = flushed
        self.accepted_ns = accepted_ns


@final
class Effects:
    """What becomes true together when a batch has reached one level: queues grow, appends are answered."""

    __slots__ = ("arrivals", "pending", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.arrivals: dict[Queue, list[bytes]] = {}
        self.pending: list[Pending] = []


@final
class OpenBatch:
    """The batch that appends go into. `end`: where the next record will stand; `reserved`: for the state record; `first_ms`: no
    record of it is older.
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
        """Nothing more comes: what has been changed goes behind the messages, as one record."""
        if self.changes:
            message = Message(change.STATE_TOPIC, change.encode(self.changes), queue_id=0)
            state = record.encode(message, 0, self.end, store_ms, store_host)
            change.locate(self.changes, self.end + record.Record(state).body_at)
            self.parts.append(state)
            self.end += len(state)
