"""Messages without a body, which Apache's brokers refuse: they are sent with a marked body, and read without it.

Mark and body are those of Apache's own MQTT server (rocketmq-mqtt, `MessageUtil.EMPTYSTRING` and the property `IS_EMPTY_MSG`),
which delivers such a message without a payload, too.
"""

from __future__ import annotations

import struct
from typing import Final

from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record

MARKED_BODY: Final = "\u2605\r\n\t\u2600".encode()
_MARK: Final = properties.entry(properties.IS_EMPTY_MSG, "true")
_LENGTH: Final = struct.pack(">I", len(MARKED_BODY))
_NO_BODY: Final = bytes(4)
"""The length of no body, and the CRC of it."""


def sendable(message: Message) -> tuple[bytes, bytes]:
    """Body and properties of a message for a broker: the marked body when it has none."""
    if message.body:
        return message.body, message.properties
    return MARKED_BODY, properties.terminated(message.properties) + _MARK


def restored(data: bytes) -> bytes:
    """A record of a broker, which `record.check` has passed: without mark and body when it has the marked body.

    A message that has only the mark, or only the body, is as its sender has sent it.
    """
    view = Record(data)
    at, end = view.body_at, view.topic_at
    if data[at - 4 : at] != _LENGTH or data[at:end] != MARKED_BODY:
        return data
    stored = view.properties
    if properties.find(stored, properties.IS_EMPTY_MSG_START) != b"true":
        return data
    stored = properties.without(stored, (properties.IS_EMPTY_MSG,))
    name_end = view.properties_at - 2
    size = at + name_end - end + 2 + len(stored)
    return b"".join(
        (size.to_bytes(4, "big"), data[4:8], _NO_BODY, data[12 : at - 4], _NO_BODY, data[end:name_end],
         len(stored).to_bytes(2, "big"), stored)
    )  # fmt: skip
