"""The handle that recalls a delayed message (RocketMQ's RecallMessageHandle, version 1).

URL-safe Base64 of `v1 topic brokerName deliverMs messageId`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

VERSION: Final = "v1"
HANDLE_CHARS_MAX: Final = 4_096


class RecallHandle(NamedTuple):
    """The fields of a handle.

    broker       name of the broker that stores the message
    due_ms       time of delivery, epoch milliseconds
    message_id   value of UNIQ_KEY
    """

    topic: str
    broker: str
    due_ms: int
    message_id: str


def handle(topic: str, broker: str, due_ms: int, message_id: str) -> str:
    """The base64url text of `version topic broker due_ms message_id`."""
    return base64.urlsafe_b64encode(f"{VERSION} {topic} {broker} {due_ms} {message_id}".encode()).decode()


def parse(text: str) -> RecallHandle | None:
    """Text -> handle, None when it is none. Padding may be missing."""
    if len(text) > HANDLE_CHARS_MAX:
        return None
    try:
        plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    parts = plain.split(" ", 4)
    if len(parts) != 5 or parts[0] != VERSION or not (parts[3].isascii() and parts[3].isdigit()) or len(parts[3]) > 18:
        return None
    return RecallHandle(parts[1], parts[2], int(parts[3]), parts[4])
