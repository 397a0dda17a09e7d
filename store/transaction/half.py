"""The forms of a half message: in RMQ_SYS_TRANS_HALF_TOPIC, after a commit, in a check, and after the last check. Pure.

The properties REAL_TOPIC and REAL_QID hold the destination (TransactionalMessageBridge, EndTransactionProcessor).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, final

from domain.address import HALF_TOPIC, UNDECIDED_TOPIC
from domain.message import property as properties
from domain.message.message import SYS_COMMITTED, SYS_TRANSACTION, Message
from domain.message.record import Record, encode
from store.delay.parking import message_of

IMMUNE_SECONDS_MAX: Final = 86_400
"""Longest time without a check that a message may request."""

_DELAYS: Final = (
    properties.DELAY, properties.TIMER_DELIVER_MS, properties.TIMER_DELAY_MS, properties.TIMER_DELAY_SEC,
    properties.TIMER_OUT_MS,
)  # fmt: skip
_PLACE: Final = (properties.REAL_TOPIC, properties.REAL_QID)
_VALUE = struct.Struct(">IqH")


@final
@dataclass(slots=True, eq=False)
class Half:
    """One open transaction.

    message_id   id of the message, which is the transaction id
    next_ms      when the next check is due, in epoch ms
    """

    group: str
    message_id: str
    next_ms: int
    checks: int = 0

    def encode(self) -> bytes:
        """The state value: checks 4 | next ms 8 | length of the id 2 | id | group."""
        name = self.message_id.encode()
        return _VALUE.pack(self.checks, self.next_ms, len(name)) + name + self.group.encode()


def decode(value: bytes) -> Half:
    """State value -> open transaction."""
    checks, next_ms, length = _VALUE.unpack_from(value)
    at = _VALUE.size + length
    return Half(value[at:].decode(), value[_VALUE.size : at].decode(), next_ms, checks)


def opened(message: Message, now_ms: int, immune_ms: int) -> Half:
    """The transaction that half message `message` opens at `now_ms`.

    The first check is due after `immune_ms`, or after the message's own CHECK_IMMUNITY_TIME_IN_SECONDS.
    """
    stored = message.properties
    seconds = properties.find(stored, properties.CHECK_IMMUNITY_START)
    if seconds.isdigit() and len(seconds) < 10:
        immune_ms = min(int(seconds), IMMUNE_SECONDS_MAX) * 1_000
    return Half(properties.text(stored, properties.PGROUP), message.message_id, now_ms + immune_ms)


def prepared(message: Message) -> Message:
    """The half message to append instead of `message`. Its delay properties are removed: a transaction cannot be delayed."""
    kept = properties.without(message.properties, _DELAYS)
    values = {
        properties.TRAN_MSG: "true",
        properties.REAL_TOPIC: message.topic,
        properties.REAL_QID: str(message.queue_id),
        properties.TRANSACTION_ID: message.message_id,
    }
    return Message(
        HALF_TOPIC, message.body, properties.with_values(kept, values), queue_id=0, message_id=message.message_id,
        sys_flag=message.sys_flag & ~SYS_TRANSACTION, flag=message.flag, born_ms=message.born_ms, born_host=message.born_host,
        reconsume_times=message.reconsume_times,
    )  # fmt: skip


def destination_of(record: Record) -> tuple[str, int]:
    """(topic, queue id) that the half message goes to when it is committed."""
    stored = record.properties
    return properties.text(stored, properties.REAL_TOPIC), int(properties.find(stored, properties.REAL_QID_START))


def committed(data: bytes) -> Message:
    """Record of a half message -> the message to append to its destination."""
    record = Record(data)
    topic, queue_id = destination_of(record)
    message = message_of(record, topic, queue_id, properties.without(record.properties, (properties.TRAN_MSG, *_PLACE)))
    message.sys_flag |= SYS_COMMITTED
    message.prepared_offset = record.physical_offset
    return message


def given_up(data: bytes) -> Message:
    """Record of a half message -> message for the topic of undecided transactions, with its destination in its properties."""
    record = Record(data)
    return message_of(record, UNDECIDED_TOPIC, 0, record.properties)


def copied(data: bytes) -> Message:
    """Record of a half message -> the same half message, to be appended again before retention deletes the record."""
    record = Record(data)
    return message_of(record, HALF_TOPIC, 0, record.properties)


def as_sent(data: bytes) -> bytes:
    """Record of a half message -> the record that a check shows the producer: its destination, with the offsets of the half."""
    record = Record(data)
    topic, queue_id = destination_of(record)
    message = message_of(record, topic, queue_id, properties.without(record.properties, _PLACE))
    return encode(message, record.queue_offset, record.physical_offset, record.store_ms, record.store_host)
