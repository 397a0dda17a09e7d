"""Why something was refused, or a connection closed: one closed list for every protocol, counted under these names.

Commands are refused with an ErrorCode, and each of those is a Reason of the same name. Connections end with a word of their
adapter; `WORDS` has the words that differ from the Reason that they mean. docs/operations.md says what to do about each.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class Reason(enum.Enum):
    """The closed list. The value is the stable name in metrics."""

    # A command was refused: the names of domain.errors.ErrorCode.
    TOPIC_NOT_FOUND = "topic-not-found"
    TOPIC_ILLEGAL = "topic-illegal"
    GROUP_NOT_FOUND = "group-not-found"
    GROUP_ILLEGAL = "group-illegal"
    GROUP_OFFLINE = "group-offline"
    QUEUE_ILLEGAL = "queue-illegal"
    OFFSET_NOT_FOUND = "offset-not-found"
    MESSAGE_NOT_FOUND = "message-not-found"
    MESSAGE_TOO_LARGE = "message-too-large"
    MESSAGE_ILLEGAL = "message-illegal"
    BODY_EMPTY = "body-empty"
    PROPERTIES_TOO_LARGE = "properties-too-large"
    PROPERTY_ILLEGAL = "property-illegal"
    TYPE_CONFLICT = "type-conflict"
    MEDIA_TYPE = "media-type"
    DELIVERY_TIME_ILLEGAL = "delivery-time-illegal"
    FILTER_ILLEGAL = "filter-illegal"
    ARGUMENT_ILLEGAL = "argument-illegal"
    RECEIPT_INVALID = "receipt-invalid"
    RECEIPT_EXPIRED = "receipt-expired"
    CLIENT_UNKNOWN = "client-unknown"
    POLLING_FULL = "polling-full"
    NOT_AUTHENTICATED = "not-authenticated"
    NOT_ALLOWED = "not-allowed"
    QUOTA = "quota"
    RATE = "rate"
    OVERLOADED = "overloaded"
    STORE_UNAVAILABLE = "store-unavailable"
    FLUSH_TIMEOUT = "flush-timeout"
    DRAINING = "draining"
    NOT_SUPPORTED = "not-supported"
    INTERNAL = "internal"

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

    @property
    def refusal(self) -> bool:
        """False for the ends that every connection may come to, and for one whose cause has been counted by itself."""
        return self not in _ORDINARY


_ORDINARY: Final = frozenset(
    (
        Reason.GOODBYE,
        Reason.LOST,
        Reason.IDLE,
        Reason.TAKEN_OVER,
        Reason.MOVED,
        Reason.SHUTTING_DOWN,
        Reason.REQUEST_REFUSED,
    )
)

WORDS: Final[Mapping[str, Reason]] = {
    # any stream protocol
    "closed": Reason.GOODBYE,
    "closed-by-node": Reason.SHUTTING_DOWN,
    "reset": Reason.LOST,
    "eof": Reason.GOODBYE,
    "end-of-stream": Reason.GOODBYE,
    "unrecognised-end": Reason.UNRECOGNISED,
    "unrecognised-late": Reason.UNRECOGNISED,
    "handshake-timeout": Reason.HANDSHAKE_DEADLINE,
    "frame-timeout": Reason.FRAME_DEADLINE,
    # HTTP/2, remoting, WebSocket
    "goaway": Reason.GOODBYE,
    "ping-timeout": Reason.KEEP_ALIVE,
    "frame-length": Reason.MALFORMED,
    "frame-header": Reason.MALFORMED,
    "websocket-handshake": Reason.HANDSHAKE_DEADLINE,
    "websocket-cut-short": Reason.CUT_SHORT,
    # MQTT
    "not-mqtt": Reason.UNRECOGNISED,
    "no-connect": Reason.HANDSHAKE_DEADLINE,
    "refused": Reason.INTERNAL,
    "unavailable": Reason.STORE_UNAVAILABLE,
    "topic-name": Reason.TOPIC_ILLEGAL,
    "too-large": Reason.MESSAGE_TOO_LARGE,
    "payload-format": Reason.MEDIA_TYPE,
    "retain": Reason.NOT_SUPPORTED,
    "qos": Reason.NOT_SUPPORTED,
    # HTTP
    "path-unknown": Reason.NOT_SUPPORTED,
    "method-not-allowed": Reason.NOT_SUPPORTED,
    "method-unknown": Reason.NOT_SUPPORTED,
    "version-unknown": Reason.NOT_SUPPORTED,
    "transfer-coding-unknown": Reason.NOT_SUPPORTED,
    "expectation-failed": Reason.NOT_SUPPORTED,
    "request-syntax": Reason.MALFORMED,
    "head-too-large": Reason.ARGUMENT_ILLEGAL,
    "target-too-long": Reason.ARGUMENT_ILLEGAL,
    "request-timeout": Reason.FRAME_DEADLINE,
    "value-not-found": Reason.MESSAGE_NOT_FOUND,
    # CoAP
    "format-error": Reason.MALFORMED,
    "requests": Reason.OVERLOADED,
    "duplicate-table": Reason.OVERLOADED,
    "challenged": Reason.NOT_AUTHENTICATED,
    "4.00": Reason.ARGUMENT_ILLEGAL,
    "4.01": Reason.NOT_AUTHENTICATED,
    "4.02": Reason.PROPERTY_ILLEGAL,
    "4.03": Reason.NOT_ALLOWED,
    "4.04": Reason.MESSAGE_NOT_FOUND,
    "4.05": Reason.NOT_SUPPORTED,
    "4.06": Reason.MEDIA_TYPE,
    "4.08": Reason.CUT_SHORT,
    "4.09": Reason.TYPE_CONFLICT,
    "4.12": Reason.ARGUMENT_ILLEGAL,
    "4.13": Reason.MESSAGE_TOO_LARGE,
    "4.15": Reason.MEDIA_TYPE,
    "4.29": Reason.RATE,
    "5.00": Reason.INTERNAL,
    "5.01": Reason.NOT_SUPPORTED,
    "5.03": Reason.OVERLOADED,
    "5.04": Reason.FLUSH_TIMEOUT,
    "5.05": Reason.NOT_SUPPORTED,
    "5.08": Reason.ARGUMENT_ILLEGAL,
}
"""Adapters' words that are not the name of their reason."""

NO_REFUSALS: Final = frozenset({"duplicate", "stray", "ignored", "unanswered", "unsendable", "no-message-id"})
"""What a datagram port drops without anybody being refused anything."""

_NAMES: Final[Mapping[str, Reason]] = {**WORDS, **{reason.value: reason for reason in Reason}}
REFUSED_STATUS: Final = "refused-"
"""HTTP/1.1 ends a connection with this and the status that it answered."""


def reason_of(word: str) -> Reason | None:
    """The reason that a word means; None for a word that nobody has entered here."""
    found = _NAMES.get(word)
    if found is None and word.startswith(REFUSED_STATUS):
        return Reason.REQUEST_REFUSED
    return found
