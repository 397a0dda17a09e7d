"""ErrorCode -> MQTT's reason and return codes, and the words that closed connections are counted under."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from domain.errors import ErrorCode, Failure


class Words(NamedTuple):
    """MQTT's codes for one ErrorCode.

    publish       reason code in PUBACK and PUBREC (5.0)
    subscribe     reason code in SUBACK (5.0); below 5.0 every refusal is 0x80
    connect       reason code in CONNACK (5.0)
    return_code   return code in CONNACK (below 5.0)
    """

    publish: int
    subscribe: int
    connect: int
    return_code: int


_BUSY: Final = Words(0x83, 0x83, 0x89, 3)
_UNKNOWN: Final = Words(0x80, 0x80, 0x80, 3)
_NAME: Final = Words(0x90, 0x8F, 0x90, 3)
_PACKET: Final = Words(0x97, 0x97, 0x97, 3)

WORDS: Final[dict[ErrorCode, Words]] = {
    ErrorCode.TOPIC_NOT_FOUND: _NAME,
    ErrorCode.TOPIC_DELETED: _NAME,
    ErrorCode.TOPIC_ILLEGAL: _NAME,
    ErrorCode.GROUP_NOT_FOUND: _UNKNOWN,
    ErrorCode.GROUP_ILLEGAL: Words(0x80, 0x8F, 0x80, 3),
    ErrorCode.GROUP_OFFLINE: _UNKNOWN,
    ErrorCode.SUBSCRIPTION_NOT_FOUND: _UNKNOWN,
    ErrorCode.QUEUE_ILLEGAL: _UNKNOWN,
    ErrorCode.OFFSET_NOT_FOUND: _UNKNOWN,
    ErrorCode.MESSAGE_NOT_FOUND: _UNKNOWN,
    ErrorCode.MESSAGE_TOO_LARGE: Words(0x97, 0x97, 0x95, 3),
    ErrorCode.MESSAGE_ILLEGAL: _UNKNOWN,
    ErrorCode.BODY_EMPTY: _UNKNOWN,
    ErrorCode.PROPERTIES_TOO_LARGE: _PACKET,
    ErrorCode.PROPERTY_ILLEGAL: _PACKET,
    ErrorCode.TYPE_CONFLICT: Words(0x90, 0x8F, 0x80, 3),
    ErrorCode.KEY_REUSED: Words(0x83, 0x83, 0x83, 3),
    ErrorCode.CHANGED: Words(0x83, 0x83, 0x83, 3),
    ErrorCode.MEDIA_TYPE: Words(0x99, 0x80, 0x99, 3),
    ErrorCode.DELIVERY_TIME_ILLEGAL: _UNKNOWN,
    ErrorCode.FILTER_ILLEGAL: Words(0x80, 0x8F, 0x80, 3),
    ErrorCode.ARGUMENT_ILLEGAL: _UNKNOWN,
    ErrorCode.RECEIPT_INVALID: _UNKNOWN,
    ErrorCode.RECEIPT_EXPIRED: _UNKNOWN,
    ErrorCode.CLIENT_UNKNOWN: _UNKNOWN,
    ErrorCode.POLLING_FULL: Words(0x97, 0x97, 0x97, 3),
    ErrorCode.NOT_AUTHENTICATED: Words(0x87, 0x87, 0x86, 4),
    ErrorCode.NOT_ALLOWED: Words(0x87, 0x87, 0x87, 5),
    ErrorCode.QUOTA: _PACKET,
    ErrorCode.RATE: Words(0x97, 0x97, 0x9F, 3),
    ErrorCode.OVERLOADED: _BUSY,
    ErrorCode.STORE_UNAVAILABLE: Words(0x83, 0x83, 0x88, 3),
    ErrorCode.FLUSH_TIMEOUT: _BUSY,
    ErrorCode.DRAINING: Words(0x83, 0x83, 0x9C, 3),
    ErrorCode.NOT_SUPPORTED: Words(0x83, 0x83, 0x83, 3),
    ErrorCode.INTERNAL: _UNKNOWN,
}

CONNACK_CODES: Final = frozenset(
    {
        0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D,
        0x9F,
    }
)  # fmt: skip
PUBLISH_CODES: Final = frozenset({0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
SUBACK_CODES: Final = frozenset({0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2})
DISCONNECT_CODES: Final = frozenset(
    {
        0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0x9B,
        0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
    }
)  # fmt: skip
"""The refusals that each packet of the server can carry (3.2.2.2, 3.4.2.1, 3.5.2.1, 3.9.3, 3.14.2.1)."""

BEFORE_CONNACK: Final = {0x83: 0x83, 0x87: 0x87, 0x8B: 0x88, 0x98: 0x86, 0x9C: 0x9C, 0x9D: 0x9D}
"""Reason code of DISCONNECT -> that of CONNACK, for a connection that ends before CONNACK. 0x8E (taken over) has none."""

Code = Callable[[Failure], int]


_DISCONNECT_FAILURES: Final = {ErrorCode.RATE: 0x96, ErrorCode.MESSAGE_TOO_LARGE: 0x95}
"""Failures of a PUBLISH whose reason codes only DISCONNECT can carry, not PUBACK or PUBREC (5.0)."""
_UNCERTAIN: Final = {ErrorCode.STORE_UNAVAILABLE: 0x8B, ErrorCode.FLUSH_TIMEOUT: 0x83}
"""Failures after which a message may be stored, and the reason code of DISCONNECT (5.0).

A client that gets such a code in PUBACK or PUBREC never sends the message again, and uses its packet identifier for the next
one, which would be taken for the same message. One that loses the connection sends it again.
"""


def disconnect_code(failure: Failure, identified: bool) -> int:
    """Reason code of the DISCONNECT that answers a PUBLISH (5.0); 0: PUBACK or PUBREC can carry the failure.

    identified   True: the message has a packet identifier
    """
    return _DISCONNECT_FAILURES.get(failure.code, 0) or (_UNCERTAIN.get(failure.code, 0) if identified else 0)


def publish_code(failure: Failure) -> int:
    """Reason code for PUBACK and PUBREC: the one that an access rule sets when these packets can carry it, else the table's."""
    return failure.word if failure.word in PUBLISH_CODES else WORDS[failure.code].publish


def subscribe_code(failure: Failure) -> int:
    """Reason code for SUBACK: the one that an access rule sets when SUBACK can carry it, else the table's."""
    return failure.word if failure.word in SUBACK_CODES else WORDS[failure.code].subscribe


def connect_code(failure: Failure) -> int:
    """Reason code for CONNACK: the one that an access rule sets when CONNACK can carry it, else the table's."""
    return failure.word if failure.word in CONNACK_CODES else WORDS[failure.code].connect


def reauthentication_code(failure: Failure) -> int:
    """Reason code for DISCONNECT after a failed re-authentication."""
    return 0x87 if failure.code is ErrorCode.NOT_AUTHENTICATED else WORDS[failure.code].publish


def revoked_code(failure: Failure) -> int:
    """Reason code for DISCONNECT after revoked access: 0x98 when the user is no longer valid, 0x87 when its rights are gone."""
    return 0x98 if failure.code is ErrorCode.NOT_AUTHENTICATED else 0x87


PUBLISHES: Final = {
    0x83: "delivery-time-illegal",
    0x87: "not-allowed",
    0x90: "topic-illegal",
    0x97: "properties-too-large",
    0x99: "media-type",
}
FILTERS: Final = {0x8F: "filter-illegal", 0x97: "quota", 0x9E: "not-supported", 0xA1: "not-supported", 0xA2: "not-supported"}
"""Reason code -> word that the adapter counts a refused PUBLISH or a refused filter under; the connection stays open."""

REASONS: Final[dict[int, str]] = {
    -1: "not-mqtt",
    0x01: "version",
    0x80: "internal",
    0x81: "malformed",
    0x82: "protocol-error",
    0x83: "refused",
    0x84: "version",
    0x85: "client-id",
    0x86: "not-authenticated",
    0x87: "not-allowed",
    0x88: "unavailable",
    0x89: "overloaded",
    0x8A: "not-allowed",
    0x8B: "shutting-down",
    0x8C: "authentication-method",
    0x8D: "keep-alive",
    0x8E: "taken-over",
    0x90: "topic-name",
    0x93: "receive-maximum",
    0x94: "topic-alias",
    0x95: "too-large",
    0x96: "rate",
    0x97: "quota",
    0x99: "payload-format",
    0x9A: "retain",
    0x9B: "qos",
    0x9C: "draining",
    0x9D: "moved",
    0x9F: "connect-rate",
}
"""Reason code with which the server ended a connection -> the word that the end is counted under."""

CLIENT_DISCONNECT: Final = "goodbye"
LOST: Final = "lost"
NO_CONNECT: Final = "no-connect"
FRAME_DEADLINE: Final = "frame-deadline"
REFUSED_PUBLISH: Final = "refused-publish"
SLOW: Final = "slow-reader"
REVOKED: Final = "revoked"

CLOSED: Final = frozenset(
    {*REASONS.values(), CLIENT_DISCONNECT, LOST, NO_CONNECT, FRAME_DEADLINE, REFUSED_PUBLISH, REVOKED, SLOW}
)
"""Every reason that `Disconnected` can carry."""
