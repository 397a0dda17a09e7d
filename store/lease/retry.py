"""The copy of a message for its group's retry topic."""

from __future__ import annotations

from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from store.delay import parking


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
