"""Columns of one record at a time. `gather` reads many records at once, must give the same values, and falls back to this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from domain import address, limits
from domain.message import property as properties
from domain.message.message import SYS_COMPRESSED
from domain.message.record import Record
from gateway.client.answer import QueueRoute
from gateway.connectors.spark.failure import RecordError, place

_MICROSECONDS: Final = 1000
TIME_MS_MIN: Final = -62_135_510_400_000
TIME_MS_MAX: Final = 253_402_214_399_999
"""0001-01-02 to 9999-12-30 in UTC: times that every time zone writes with four digits. Times beyond are moved to these."""


def reader(column: str, queue: QueueRoute, permissive: bool) -> Callable[[Record], object]:
    """The function that reads a column from a record of `queue`. `permissive`: see `body`."""
    if column == "topic":
        return lambda _: queue.topic
    if column == "brokerName":
        return lambda _: queue.broker
    if column == "body":
        return lambda record: body(record, queue, permissive)
    return _READERS[column]


def body(record: Record, queue: QueueRoute, permissive: bool) -> bytes | None:
    """The body, decompressed. One that cannot be decompressed is None when `permissive`, else raises RecordError."""
    if not record.sys_flag & SYS_COMPRESSED:
        return record.body
    from protocols.compression import plain

    found = plain(record, limits.BODY_BYTES_MAX)
    if found is None and not permissive:
        raise unreadable(queue, record.queue_offset)
    return found


def unreadable(queue: QueueRoute, offset: int) -> RecordError:
    """The error for a body that cannot be decompressed."""
    return RecordError(
        f"{place(queue)}, offset {offset}: the body is corrupt, or larger than {limits.BODY_BYTES_MAX} bytes "
        "when decompressed. Set option mode=PERMISSIVE to read such bodies as null."
    )


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
    return min(max(signed_ms, TIME_MS_MIN), TIME_MS_MAX) * _MICROSECONDS


def signed(number: int) -> int:
    """An unsigned 32-bit number as a signed one, as in Spark's int."""
    return number - 0x1_0000_0000 if number & 0x8000_0000 else number


_READERS: Final[dict[str, Callable[[Record], object]]] = {
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
    "reconsumeTimes": lambda record: signed(record.reconsume_times),
    "bodyCrc": lambda record: int.from_bytes(record.data[8:12], "big", signed=True),
}
