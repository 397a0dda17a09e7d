"""Errors as values: a code, a retry hint, and facts.

    Failure                 what a command or a port answers instead of its result: expected, never raised
    GatewayError            raised only where a caller broke a contract or a person must act
      ConfigError           a setting, an option or a file that a person has to change
      StoreError            the store cannot go on (disk failed, log corrupt in the middle)

Every protocol maps `ErrorCode` to its own words in one table, `protocols/<name>/status.py`; a test asks that no row is missing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class RetryHint(enum.Enum):
    """What a client should do about it."""

    NEVER = "never"
    LATER = "later"
    ELSEWHERE = "elsewhere"


class ErrorCode(enum.Enum):
    """Every outcome that is not success. The value is the stable name that people and metrics see."""

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


_LATER = frozenset(
    {
        ErrorCode.POLLING_FULL,
        ErrorCode.QUOTA,
        ErrorCode.RATE,
        ErrorCode.OVERLOADED,
        ErrorCode.STORE_UNAVAILABLE,
        ErrorCode.FLUSH_TIMEOUT,
        ErrorCode.CLIENT_UNKNOWN,
        ErrorCode.INTERNAL,
    }
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One refusal: a code, and a sentence for a person that says what, where and what to do.

    word    a number of the protocol's own that a rule of access wants it said by, 0: what the protocol's table has
    denied  True: no policy grants it to whoever asks; NOT_ALLOWED without it is nobody's to do
    """

    code: ErrorCode
    text: str = ""
    word: int = 0
    denied: bool = False

    @property
    def retry(self) -> RetryHint:
        """The hint that belongs to the code."""
        if self.code is ErrorCode.DRAINING:
            return RetryHint.ELSEWHERE
        return RetryHint.LATER if self.code in _LATER else RetryHint.NEVER


class GatewayError(Exception):
    """The root of all that Headgate raises."""


class ConfigError(GatewayError):
    """A person has to change a setting, an option or a file; the text says which and how."""


class StoreError(GatewayError):
    """The store cannot go on without a person."""
