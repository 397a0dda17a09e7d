"""Messages to a topic of type LITE: the property that names the queue of their lite topic."""

from __future__ import annotations

from domain import limits, lite
from domain import property as properties
from domain.errors import ErrorCode, Failure
from domain.message import Message
from domain.topic import Topic

OFFSET_BYTES = 48
"""Bytes of the property that the store adds: the message's offset in the queue of its lite topic."""


def accept(topic: Topic, message: Message) -> Failure | None:
    """Set the property that names the queue of the message's lite topic (SendMessageProcessor of RocketMQ).

    A value that the client has set is dropped. Failure: PROPERTY_ILLEGAL for a bad lite topic, PROPERTIES_TOO_LARGE.
    """
    stored = message.properties
    if b"INNER_MULTI" in stored:
        stored = properties.without(stored, lite.MARKS)
    name = lite.name_in(stored)
    if name:
        if not lite.is_name(name):
            text = f"lite topic {name[:80]!r}: 1 to {lite.NAME_CHARS_MAX} of the characters a-z A-Z 0-9 _ -"
            return Failure(ErrorCode.PROPERTY_ILLEGAL, text)
        dispatch = properties.entry(properties.INNER_MULTI_DISPATCH, lite.queue_name(topic.name, name))
        stored = properties.terminated(stored) + dispatch
        if len(stored) > limits.PROPERTIES_BYTES_MAX - OFFSET_BYTES:
            text = f"the properties have {len(stored)} bytes with the lite topic's, 32,719 are allowed"
            return Failure(ErrorCode.PROPERTIES_TOO_LARGE, text)
    message.properties = stored
    return None
