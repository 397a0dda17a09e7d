"""Reads the messages of lease calls, and moves messages that block a floor to the retry topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain import address
from domain.ports import Clock
from domain.topic import Durability, Topic
from store.appends.append import Appender
from store.lease.ledger import LeaseLedger
from store.lease.retry import retry_copy
from store.lease.table import LeaseTable
from store.log.reader import RecordReader
from store.queue.row import Row
from store.state.metadata import Catalogue


@final
class LeaseSource:
    """`RecordSource` over the log."""

    __slots__ = ("_appender", "_clock", "_durability", "_ledger", "_metadata", "_reader", "hidden_ms")

    def __init__(
        self,
        reader: RecordReader,
        appender: Appender,
        ledger: LeaseLedger,
        metadata: Catalogue,
        clock: Clock,
        durability: Durability,
        hidden_ms: int,
    ) -> None:
        """`durability` is that of a retry topic whose topic does not exist any more; `hidden_ms`: RecordSource.hidden_ms."""
        self.hidden_ms = hidden_ms
        self._reader = reader
        self._appender = appender
        self._ledger = ledger
        self._metadata = metadata
        self._clock = clock
        self._durability = durability

    def records(self, rows: Sequence[Row]) -> list[bytes]:
        """RecordSource.records. Raises StoreError, OSError."""
        return self._reader.fetch(rows)

    def move_to_retry_topic(self, table: LeaseTable, offset: int, record: bytes, retry_topic: str = "") -> None:
        """RecordSource.move_to_retry_topic. The retry topic is created when it does not exist."""
        name = retry_topic or table.topic
        if not name.startswith(address.RETRY_PREFIX):
            name = address.pop_retry_topic(table.group, table.topic)
        origin = self._metadata.topic(table.topic)
        if self._metadata.topic(name) is None:
            durability = self._durability if origin is None else origin.durability
            topic = Topic(name, 1, 1, durability=durability, created_ms=self._clock.wall_ms())
            self._metadata.put_topic(topic, lambda _: None)
        lease = table.leases[offset]
        copy = retry_copy(record, name, table.topic, lease.attempts, lease.first_ms)
        table.skip(offset)
        self._appender.add((copy,), (self._ledger.turn.pending_change(table),), None, False)
