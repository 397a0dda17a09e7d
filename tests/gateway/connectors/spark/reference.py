"""Columns of one record at a time, which those of `gather` have to equal."""

from __future__ import annotations

from collections.abc import Callable

from domain import address, limits
from domain.message import property as properties
from domain.message.record import Record
from gateway.client.answer import QueueRoute
from gateway.connectors.spark.gather import TIME_MS_MAX, TIME_MS_MIN
from protocols.compression import plain


def reader(column: str, queue: QueueRoute) -> Callable[[Record], object]:
    """The function that reads a column from a record of `queue`; a body that cannot be decompressed is None."""
    if column == "topic":
        return lambda _: queue.topic
    if column == "brokerName":
        return lambda _: queue.broker
    return READERS[column]


def message_id(record: Record) -> str:
    """Property UNIQ_KEY; without one, the offset message id."""
    return text(record, properties.UNIQ_KEY) or address.offset_message_id(record.store_host, record.physical_offset)


def text(record: Record, name: str) -> str | None:
    """The value of property `name`; None when it is absent or empty."""
    return properties.text(record.properties, name) or None


def pairs(record: Record) -> list[tuple[str, str]]:
    """All properties, as (key, value) pairs of a map column."""
    return list(properties.decode(record.properties).items())


def microseconds(time_ms: int) -> int:
    """A time of 64 bits in milliseconds -> microseconds, within the times that Spark can show."""
    signed_ms = time_ms - (1 << 64) if time_ms >> 63 else time_ms
    return min(max(signed_ms, TIME_MS_MIN), TIME_MS_MAX) * 1000


def signed(number: int) -> int:
    """An unsigned 32-bit number as a signed one, as in Spark's int."""
    return number - 0x1_0000_0000 if number & 0x8000_0000 else number


READERS: dict[str, Callable[[Record], object]] = {
    "queueId": lambda record: record.queue_id,
    "queueOffset": lambda record: record.queue_offset,
    "bornTimestamp": lambda record: microseconds(record.born_ms),
    "storeTimestamp": lambda record: microseconds(record.store_ms),
    "keys": lambda record: text(record, properties.KEYS),
    "tags": lambda record: text(record, properties.TAGS),
    "messageId": message_id,
    "messageGroup": lambda record: text(record, properties.SHARDING_KEY),
    "bornHost": lambda record: address.host_text(record.born_host),
    "properties": pairs,
    "body": lambda record: plain(record, limits.BODY_BYTES_MAX),
    "reconsumeTimes": lambda record: signed(record.reconsume_times),
    "bodyCrc": lambda record: int.from_bytes(record.data[8:12], "big", signed=True),
}
