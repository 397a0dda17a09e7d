"""The copy of a message for its group's retry topic."""

from __future__ import annotations

from domain import property as properties
from domain.message import Message
from domain.record import Record
from store.delay import parking


def retry_copy(record: bytes, retry_topic: str, topic: str, attempts: int, first_ms: int) -> Message:
    """A message for queue 0 of `retry_topic`, made from `record` of `topic` (RocketMQ's PopReviveService).

    `attempts` deliveries since `first_ms` (wall-clock ms) are added to its reconsume times. RETRY_TOPIC keeps the first topic.
    """
    view = Record(record)
    values = {properties.FIRST_POP_TIME: str(first_ms)}
    if not properties.find(view.properties, properties.RETRY_TOPIC_START):
        values[properties.RETRY_TOPIC] = topic
    copy = parking.message_of(view, retry_topic, 0, properties.with_values(view.properties, values))
    copy.reconsume_times = view.reconsume_times + attempts
    return copy
