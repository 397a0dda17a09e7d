"""Reads of the messages of lease calls, and moves of messages that block a floor to the retry topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain import address
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from domain.ports import Clock
from domain.topic.topic import Durability, Topic
from store.appends.writer import StoreWriter
from store.delay import parking
from store.lease.journaled_tables import JournaledTables
from store.lease.table import LeaseTable
from store.log.reader import RecordReader
from store.queue.row import Row
from store.state.metadata import Catalogue


def retry_copy(record: bytes, retry_topic: str, topic: str, attempts: int, first_ms: int, sent_back: bool = False) -> Message:
    """Message for queue 0 of `retry_topic`, made from `record` of `topic` (RocketMQ's PopReviveService).

    The reconsume times grow by `attempts`, the deliveries since `first_ms` (wall-clock ms). RETRY_TOPIC keeps the first topic.
    `sent_back`: `retry_topic` is the one for messages that consumers send back, and the copy is marked like those.
    """
    view = Record(record)
    stored = view.properties
    values: dict[str, str] = {}
    if sent_back:
        found = properties.text(stored, properties.ORIGIN_MESSAGE_ID) or properties.text(stored, properties.UNIQ_KEY)
        values[properties.ORIGIN_MESSAGE_ID] = properties.id_mark(found)
    values[properties.RETRY_TOPIC] = properties.text(stored, properties.RETRY_TOPIC) or topic
    values[properties.FIRST_POP_TIME] = str(first_ms)
    copy = parking.message_of(view, retry_topic, 0, properties.with_room(stored, values))
    copy.reconsume_times = view.reconsume_times + attempts
    return copy


@final
class LeaseSource:
    """Reads records for a lease call, and moves messages to the retry topic.

    broker      broker name in receipts
    hidden_ms   length of the lease to nobody of a record that cannot be read
    """

    def __init__(
        self,
        reader: RecordReader,
        writer: StoreWriter,
        ledger: JournaledTables,
        metadata: Catalogue,
        clock: Clock,
        durability: Durability,
        broker: str,
        hidden_ms: int,
    ) -> None:
        """`durability` applies to a new retry topic whose origin topic is gone."""
        self.broker = broker
        self.hidden_ms = hidden_ms
        self._reader = reader
        self._writer = writer
        self._ledger = ledger
        self._metadata = metadata
        self._clock = clock
        self._durability = durability

    def records(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of rows, b"" for a lost one. Raises StoreError and OSError when one of them cannot be read."""
        return self._reader.fetch(rows)

    def move_to_retry_topic(self, table: LeaseTable, offset: int, record: bytes, retry_topic: str = "") -> bool:
        """Copy a message to `retry_topic`, "" for the retry topic of leases, and settle it in the same commit.

        False: the store takes no writes now, and the message stays leased. A missing retry topic is created. The lease is
        settled after the copy is built and the store accepts it: a failure before leaves the message leased.
        """
        name = retry_topic or _copied_to(table, record)
        lease = table.leases[offset]
        copy = retry_copy(record, name, table.topic, lease.attempts, lease.first_ms, sent_back=bool(retry_topic))
        if self._writer.refusal((copy,)) is not None:
            return False
        if self._metadata.topic(name) is None:
            if self._writer.refusal() is not None:
                return False
            origin = self._metadata.topic(table.topic)
            durability = self._durability if origin is None else origin.durability
            topic = Topic(name, 1, 1, durability=durability, created_ms=self._clock.wall_ms())
            self._metadata.put_topic(topic, lambda _: None)
        table.skip(offset)
        self._writer.put((copy,), (self._ledger.pending_change(table),), None)
        self._ledger.appended(table)
        return True


def _copied_to(table: LeaseTable, record: bytes) -> str:
    """Retry topic for a message of the topic of `table`.

    A message in a retry topic stays there, unless the topic is of version 1: other groups may share its name.
    """
    topic = table.topic
    if not topic.startswith(address.RETRY_PREFIX):
        return address.pop_retry_topic(table.group, topic)
    origin = properties.text(Record(record).properties, properties.RETRY_TOPIC)
    return address.pop_retry_topic(table.group, origin) if topic == address.pop_retry_topic_v1(table.group, origin) else topic
