"""Errors as values: a code, a retry hint, and facts.

    Failure                 the answer of a command or a port in place of its result: expected, never raised
    GatewayError            raised when a caller broke a contract, or a person has to act
      ConfigError           a setting, an option or a file that a person has to change
      StoreError            the store cannot go on (the disk failed, the log is corrupt in the middle)

Every protocol maps `ErrorCode` to its own codes in one table, `protocols/<name>/status.py`; a test checks that it is complete.
"""

from __future__ import annotations

import enum
import errno
from dataclasses import dataclass
from typing import Final


class RetryHint(enum.Enum):
    """Hint to a client about repeating a refused request: never, later, or at another node."""

    NEVER = "never"
    LATER = "later"
    ELSEWHERE = "elsewhere"


class ErrorCode(enum.Enum):
    """Every outcome that is not a success. The value is the stable name in answers and metrics."""

    TOPIC_NOT_FOUND = "topic-not-found"
    TOPIC_DELETED = "topic-deleted"
    TOPIC_ILLEGAL = "topic-illegal"
    GROUP_NOT_FOUND = "group-not-found"
    GROUP_ILLEGAL = "group-illegal"
    GROUP_OFFLINE = "group-offline"
    QUEUE_ILLEGAL = "queue-illegal"
    OFFSET_NOT_FOUND = "offset-not-found"
    SUBSCRIPTION_NOT_FOUND = "subscription-not-found"
    MESSAGE_NOT_FOUND = "message-not-found"
    MESSAGE_TOO_LARGE = "message-too-large"
    MESSAGE_ILLEGAL = "message-illegal"
    BODY_EMPTY = "body-empty"
    PROPERTIES_TOO_LARGE = "properties-too-large"
    PROPERTY_ILLEGAL = "property-illegal"
    TYPE_CONFLICT = "type-conflict"
    KEY_REUSED = "key-reused"
    CHANGED = "changed"
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
        ErrorCode.CHANGED,
        ErrorCode.INTERNAL,
    }
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One refusal.

    text     a sentence for a person: what is wrong, where, and what to do
    word     a protocol's own number for it, which an access rule chose; 0: the protocol's table decides
    denied   with NOT_ALLOWED: True: the policies of the user do not grant it; False: nobody may do it
    copies   with FLUSH_TIMEOUT: True: the leader has it, and too few replicas; False: the disk may not have it
    """

    code: ErrorCode
    text: str = ""
    word: int = 0
    denied: bool = False
    copies: bool = False

    @property
    def retry(self) -> RetryHint:
        """The retry hint of the code."""
        if self.code is ErrorCode.DRAINING:
            return RetryHint.ELSEWHERE
        return RetryHint.LATER if self.code in _LATER else RetryHint.NEVER


class GatewayError(Exception):
    """The root of all exceptions that Headgate raises."""


class ConfigError(GatewayError):
    """A person has to change a setting, an option or a file; the text says which and how."""


class StoreError(GatewayError):
    """The store cannot go on without a person, or cannot read one place.

    file         name of the file within the data directory, "" when it is not known
    repairable   True when `headgate repair` makes the store open again
    """

    repairable = False

    def __init__(self, text: str, file: str = "") -> None:
        super().__init__(text)
        self.file = file


_NO_DESCRIPTOR: Final = frozenset((errno.EMFILE, errno.ENFILE))


def lacks_descriptor(error: OSError) -> bool:
    """True when a file could not be opened since the process or the system has no file descriptor left: nothing is wrong with
    the file."""
    return error.errno in _NO_DESCRIPTOR
