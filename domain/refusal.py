"""Why a command was refused or a connection ended: one closed list for every protocol, counted under these names.

A command is refused with an ErrorCode, a connection ends with an Ending; both are reasons. Adapters say their own words for the
end of a connection; `WORDS` has the words that differ from the name of the reason that they mean. docs/operations.md says what
to do about each reason.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from domain.errors import ErrorCode


class Ending(enum.Enum):
    """Why a connection was refused or has ended. The value is the stable name in metrics."""

    # A connection was not taken.
    CONNECTIONS_MAX = "connections-max"
    ADDRESS_CONNECTIONS = "address-connections"
    CONNECT_RATE = "connect-rate"
    FLAPPING = "flapping"
    PROXY_REFUSED = "proxy-refused"
    PROXY_MALFORMED = "proxy-malformed"
    PROXY_MISSING = "proxy-missing"
    TLS_HANDSHAKE = "tls-handshake"
    UNRECOGNISED = "unrecognised"
    SILENT = "silent"
    HANDSHAKE_DEADLINE = "handshake-deadline"
    WEBSOCKET_REFUSED = "websocket-refused"
    VERSION = "version"
    CLIENT_ID = "client-id"
    AUTHENTICATION_METHOD = "authentication-method"

    # A connection was ended, for what its client did or left undone.
    MALFORMED = "malformed"
    PROTOCOL_ERROR = "protocol-error"
    CUT_SHORT = "cut-short"
    REQUEST_REFUSED = "request-refused"
    FRAME_DEADLINE = "frame-deadline"
    KEEP_ALIVE = "keep-alive"
    RECEIVE_MAXIMUM = "receive-maximum"
    TOPIC_ALIAS = "topic-alias"
    REFUSED_PUBLISH = "refused-publish"
    FLOOD = "flood"
    SLOW_READER = "slow-reader"
    REVOKED = "revoked"
    ADAPTER_FAULT = "adapter-fault"
    DATAGRAM_DROPPED = "datagram-dropped"
    DATAGRAM_NOT_SENT = "datagram-not-sent"

    # A connection has ended as connections do.
    GOODBYE = "goodbye"
    LOST = "lost"
    IDLE = "idle"
    TAKEN_OVER = "taken-over"
    MOVED = "moved"
    SHUTTING_DOWN = "shutting-down"


Reason = ErrorCode | Ending
REASONS: Final[tuple[Reason, ...]] = (*ErrorCode, *Ending)
"""The closed list."""

_ORDINARY: Final = frozenset(
    (
        Ending.GOODBYE,
        Ending.LOST,
        Ending.IDLE,
        Ending.TAKEN_OVER,
        Ending.MOVED,
        Ending.SHUTTING_DOWN,
        Ending.REQUEST_REFUSED,
    )
)

WORDS: Final[Mapping[str, Reason]] = {
    # any stream protocol
    "closed": Ending.GOODBYE,
    "closed-by-node": Ending.SHUTTING_DOWN,
    "reset": Ending.LOST,
    "eof": Ending.GOODBYE,
    "end-of-stream": Ending.GOODBYE,
    "unrecognised-end": Ending.UNRECOGNISED,
    "unrecognised-late": Ending.UNRECOGNISED,
    "handshake-timeout": Ending.HANDSHAKE_DEADLINE,
    "frame-timeout": Ending.FRAME_DEADLINE,
    # HTTP/2, remoting, WebSocket
    "goaway": Ending.GOODBYE,
    "ping-timeout": Ending.KEEP_ALIVE,
    "frame-length": Ending.MALFORMED,
    "frame-header": Ending.MALFORMED,
    "websocket-handshake": Ending.HANDSHAKE_DEADLINE,
    "websocket-cut-short": Ending.CUT_SHORT,
    # MQTT
    "not-mqtt": Ending.UNRECOGNISED,
    "no-connect": Ending.HANDSHAKE_DEADLINE,
    "refused": ErrorCode.INTERNAL,
    "unavailable": ErrorCode.STORE_UNAVAILABLE,
    "topic-name": ErrorCode.TOPIC_ILLEGAL,
    "too-large": ErrorCode.MESSAGE_TOO_LARGE,
    "payload-format": ErrorCode.MEDIA_TYPE,
    "retain": ErrorCode.NOT_SUPPORTED,
    "qos": ErrorCode.NOT_SUPPORTED,
    # HTTP
    "path-unknown": ErrorCode.NOT_SUPPORTED,
    "method-not-allowed": ErrorCode.NOT_SUPPORTED,
    "method-unknown": ErrorCode.NOT_SUPPORTED,
    "version-unknown": ErrorCode.NOT_SUPPORTED,
    "transfer-coding-unknown": ErrorCode.NOT_SUPPORTED,
    "expectation-failed": ErrorCode.NOT_SUPPORTED,
    "request-syntax": Ending.MALFORMED,
    "head-too-large": ErrorCode.ARGUMENT_ILLEGAL,
    "target-too-long": ErrorCode.ARGUMENT_ILLEGAL,
    "request-timeout": Ending.FRAME_DEADLINE,
    "value-not-found": ErrorCode.MESSAGE_NOT_FOUND,
    # CoAP
    "format-error": Ending.MALFORMED,
    "requests": ErrorCode.OVERLOADED,
    "duplicate-table": ErrorCode.OVERLOADED,
    "challenged": ErrorCode.NOT_AUTHENTICATED,
    "4.00": ErrorCode.ARGUMENT_ILLEGAL,
    "4.01": ErrorCode.NOT_AUTHENTICATED,
    "4.02": ErrorCode.PROPERTY_ILLEGAL,
    "4.03": ErrorCode.NOT_ALLOWED,
    "4.04": ErrorCode.MESSAGE_NOT_FOUND,
    "4.05": ErrorCode.NOT_SUPPORTED,
    "4.06": ErrorCode.MEDIA_TYPE,
    "4.08": Ending.CUT_SHORT,
    "4.09": ErrorCode.TYPE_CONFLICT,
    "4.12": ErrorCode.ARGUMENT_ILLEGAL,
    "4.13": ErrorCode.MESSAGE_TOO_LARGE,
    "4.15": ErrorCode.MEDIA_TYPE,
    "4.29": ErrorCode.RATE,
    "5.00": ErrorCode.INTERNAL,
    "5.01": ErrorCode.NOT_SUPPORTED,
    "5.03": ErrorCode.OVERLOADED,
    "5.04": ErrorCode.FLUSH_TIMEOUT,
    "5.05": ErrorCode.NOT_SUPPORTED,
    "5.08": ErrorCode.ARGUMENT_ILLEGAL,
}
"""Adapters' words that are not the name of their reason."""

NO_REFUSALS: Final = frozenset({"duplicate", "stray", "ignored", "unanswered", "unsendable", "no-message-id"})
"""What a datagram port drops without anybody being refused anything."""

_NAMES: Final[Mapping[str, Reason]] = {**WORDS, **{reason.value: reason for reason in REASONS}}
REFUSED_STATUS: Final = "refused-"
"""HTTP/1.1 ends a connection with this and the status that it answered."""


def is_refusal(reason: Reason) -> bool:
    """False for the ends that every connection may come to, and for one whose cause has been counted by itself."""
    return reason not in _ORDINARY


def reason_of(word: str) -> Reason | None:
    """The reason that a word means; None for a word that nobody has entered here."""
    found = _NAMES.get(word)
    if found is None and word.startswith(REFUSED_STATUS):
        return Ending.REQUEST_REFUSED
    return found
