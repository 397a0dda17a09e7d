"""The copy of a message that goes on in its group's retry topic."""

from __future__ import annotations

from domain import property as properties
from domain.message import Message
from domain.record import Record
from store.delay import parking


def retry_copy(record: bytes, retry_topic: str, topic: str, attempts: int, first_ms: int) -> Message:
    """`record` of `topic`, leased `attempts` times since `first_ms`, for queue 0 of `retry_topic` (PopReviveService)."""
    view = Record(record)
    values = {properties.FIRST_POP_TIME: str(first_ms)}
    if not properties.find(view.properties, properties.RETRY_TOPIC.encode()):
        values[properties.RETRY_TOPIC] = topic
    copy = parking.message_of(view, retry_topic, 0, properties.with_values(view.properties, values))
    copy.reconsume_times = view.reconsume_times + attempts
    return copy
