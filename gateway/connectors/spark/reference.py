"""Records to columns, one message at a time: the plain reading, which `gather` must agree with, and falls back to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from domain import address, limits
from domain import property as properties
from domain.message import SYS_COMPRESSED
from domain.record import Record
from gateway.client.answer import QueueRoute
from gateway.connectors.spark.failure import RecordError, place

_MICROSECONDS: Final = 1000


def reader(column: str, queue: QueueRoute, permissive: bool) -> Callable[[Record], object]:
    """How one column is read from one record."""
    if column == "topic":
        return lambda _: queue.topic
    if column == "brokerName":
        return lambda _: queue.broker
    if column == "body":
        return lambda record: body(record, queue, permissive)
    return _READERS[column]


def body(record: Record, queue: QueueRoute, permissive: bool) -> bytes | None:
    """The body as its sender had it; of one that cannot be decompressed None when `permissive`, else RecordError."""
    if not record.sys_flag & SYS_COMPRESSED:
        return record.body
    from protocols.compression import plain

    found = plain(record, limits.BODY_BYTES_MAX)
    if found is None and not permissive:
        raise RecordError(
            f"{place(queue)}, offset {record.queue_offset}: the body is corrupt, or larger than {limits.BODY_BYTES_MAX} bytes "
            "when decompressed. Set option mode=PERMISSIVE to read such bodies as null."
        )
    return found


def message_id(record: Record) -> str:
    """UNIQ_KEY, or the offset message id when the record has none."""
    return text(record, properties.UNIQ_KEY) or address.offset_message_id(record.store_host, record.physical_offset)


def text(record: Record, name: str) -> str | None:
    """A property, None when it is absent or empty."""
    return properties.text(record.properties, name) or None


def pairs(record: Record) -> list[tuple[str, str]]:
    """All properties, as a map column has them."""
    return list(properties.decode(record.properties).items())


def signed(number: int) -> int:
    """A 32-bit number as Spark's int reads it."""
    return number - 0x1_0000_0000 if number & 0x8000_0000 else number


_READERS: Final[dict[str, Callable[[Record], object]]] = {
    "queueId": lambda record: signed(record.queue_id),
    "queueOffset": lambda record: record.queue_offset,
    "bornTimestamp": lambda record: record.born_ms * _MICROSECONDS,
    "storeTimestamp": lambda record: record.store_ms * _MICROSECONDS,
    "keys": lambda record: text(record, properties.KEYS),
    "tags": lambda record: text(record, properties.TAGS),
    "messageId": message_id,
    "messageGroup": lambda record: text(record, properties.SHARDING_KEY),
    "bornHost": lambda record: address.host_text(record.born_host),
    "properties": pairs,
    "reconsumeTimes": lambda record: signed(record.reconsume_times),
    "bodyCrc": lambda record: int.from_bytes(record.data[8:12], "big", signed=True),
}
