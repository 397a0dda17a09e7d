"""The words that MQTT counts refusals and closed connections under -> their reasons (domain/refusal.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.errors import ErrorCode
from domain.refusal import Ending, Reason

WORDS: Final[Mapping[str, Reason | None]] = {
    "not-mqtt": Ending.UNRECOGNISED,
    "no-connect": Ending.HANDSHAKE_DEADLINE,
    "refused": ErrorCode.INTERNAL,
    "unavailable": ErrorCode.STORE_UNAVAILABLE,
    "topic-name": ErrorCode.TOPIC_ILLEGAL,
    "too-large": ErrorCode.MESSAGE_TOO_LARGE,
    "payload-format": ErrorCode.MEDIA_TYPE,
    "retain": ErrorCode.NOT_SUPPORTED,
    "qos": ErrorCode.NOT_SUPPORTED,
}
