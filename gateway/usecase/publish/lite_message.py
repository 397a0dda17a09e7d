"""Messages to a topic of type LITE: the property that names the queues of their lite topics."""

from __future__ import annotations

from typing import Final

from domain import limits
from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import Message
from domain.topic import lite
from domain.topic.topic import Topic

OFFSET_BYTES: Final = 48
"""Bytes of the property that the store adds, with the message's offset in the queue of one lite topic."""
MORE_OFFSET_BYTES: Final = 20
"""Bytes of the offset in each further queue."""


def accept(topic: Topic, message: Message) -> Failure | None:
    """Set the property that names the queues of the message's lite topics (SendMessageProcessor of RocketMQ).

    They are the lite topic of the message, and the queues that it names in INNER_MULTI_DISPATCH: only clients of remoting can
    set this property, and whoever may write to the topic may write to every lite topic of it, and to none of another.
    Failure: PROPERTY_ILLEGAL for a bad lite topic, a queue of another topic or too many, PROPERTIES_TOO_LARGE.
    """
    stored = message.properties
    names: list[str] = []
    name = lite.name_in(stored)
    if name:
        if not lite.is_name(name):
            text = f"lite topic {name[:80]!r}: 1 to {lite.NAME_CHARS_MAX} of the characters a-z A-Z 0-9 _ -"
            return Failure(ErrorCode.PROPERTY_ILLEGAL, text)
        names.append(name)
    if properties.has(stored, b"INNER_MULTI"):
        for queue in properties.text(stored, properties.INNER_MULTI_DISPATCH).split(","):
            parent, name = lite.split(queue)
            if queue and (parent != topic.name or not lite.is_name(name)):
                text = f"INNER_MULTI_DISPATCH names {queue[:200]!r}, and may name {lite.queue_name(topic.name, '…')}"
                return Failure(ErrorCode.PROPERTY_ILLEGAL, text)
            if queue:
                names.append(name)
        stored = properties.without(stored, lite.MARKS)
        names = list(dict.fromkeys(names))
        if len(names) > lite.DISPATCH_MAX:
            text = f"INNER_MULTI_DISPATCH names {len(names)} lite topics, {lite.DISPATCH_MAX} are allowed"
            return Failure(ErrorCode.PROPERTY_ILLEGAL, text)
    if names:
        queues = ",".join([lite.queue_name(topic.name, each) for each in names])
        stored = properties.terminated(stored) + properties.entry(properties.INNER_MULTI_DISPATCH, queues)
        allowed = limits.PROPERTIES_BYTES_MAX - OFFSET_BYTES - (len(names) - 1) * MORE_OFFSET_BYTES
        if len(stored) > allowed:
            text = f"the properties have {len(stored)} bytes with those of the lite topics, {allowed:,} are allowed"
            return Failure(ErrorCode.PROPERTIES_TOO_LARGE, text)
    message.properties = stored
    return None
