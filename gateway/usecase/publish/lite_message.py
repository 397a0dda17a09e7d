"""A message for a lite topic on its way in."""

from __future__ import annotations

from domain import limits, lite
from domain import property as properties
from domain.errors import ErrorCode, Failure
from domain.message import Message
from domain.topic import Topic

OFFSET_BYTES = 48
"""Room for what the store adds: the message's offset in its light queue."""


def accept(topic: Topic, message: Message) -> Failure | None:
    """Name the light queue of a message of a LITE topic (SendMessageProcessor). What a client says of queues is dropped."""
    stored = message.properties
    if b"INNER_MULTI" in stored:
        stored = properties.without(stored, lite.MARKS)
    name = lite.name_in(stored)
    if name:
        if not lite.is_name(name):
            text = f"lite topic {name[:80]!r}: 1 to {lite.NAME_CHARS_MAX} of the characters a-z A-Z 0-9 _ -"
            return Failure(ErrorCode.PROPERTY_ILLEGAL, text)
        if stored and not stored.endswith(b"\x02"):
            stored += b"\x02"
        stored += properties.entry(properties.INNER_MULTI_DISPATCH, lite.queue_name(topic.name, name))
        if len(stored) > limits.PROPERTIES_BYTES_MAX - OFFSET_BYTES:
            text = f"the properties have {len(stored)} bytes with the lite topic's, 32,719 are allowed"
            return Failure(ErrorCode.PROPERTIES_TOO_LARGE, text)
    message.properties = stored
    return None
