"""Mapping of ErrorCode to CoAP response codes."""

from __future__ import annotations

from typing import Final

from domain.errors import ErrorCode
from protocols.coap.message import message

CODES: Final[dict[ErrorCode, int]] = {
    ErrorCode.TOPIC_NOT_FOUND: message.NOT_FOUND,
    ErrorCode.TOPIC_DELETED: message.NOT_FOUND,
    ErrorCode.TOPIC_ILLEGAL: message.BAD_REQUEST,
    ErrorCode.GROUP_NOT_FOUND: message.NOT_FOUND,
    ErrorCode.GROUP_ILLEGAL: message.BAD_REQUEST,
    ErrorCode.GROUP_OFFLINE: message.NOT_FOUND,
    ErrorCode.SUBSCRIPTION_NOT_FOUND: message.NOT_FOUND,
    ErrorCode.QUEUE_ILLEGAL: message.BAD_REQUEST,
    ErrorCode.OFFSET_NOT_FOUND: message.NOT_FOUND,
    ErrorCode.MESSAGE_NOT_FOUND: message.NOT_FOUND,
    ErrorCode.MESSAGE_TOO_LARGE: message.TOO_LARGE,
    ErrorCode.MESSAGE_ILLEGAL: message.BAD_REQUEST,
    ErrorCode.BODY_EMPTY: message.BAD_REQUEST,
    ErrorCode.PROPERTIES_TOO_LARGE: message.BAD_REQUEST,
    ErrorCode.PROPERTY_ILLEGAL: message.BAD_REQUEST,
    ErrorCode.TYPE_CONFLICT: message.BAD_REQUEST,
    ErrorCode.KEY_REUSED: message.CONFLICT,
    ErrorCode.CHANGED: message.CONFLICT,
    ErrorCode.MEDIA_TYPE: message.UNSUPPORTED_FORMAT,
    ErrorCode.DELIVERY_TIME_ILLEGAL: message.BAD_REQUEST,
    ErrorCode.FILTER_ILLEGAL: message.BAD_REQUEST,
    ErrorCode.ARGUMENT_ILLEGAL: message.BAD_REQUEST,
    ErrorCode.RECEIPT_INVALID: message.PRECONDITION_FAILED,
    ErrorCode.RECEIPT_EXPIRED: message.PRECONDITION_FAILED,
    ErrorCode.CLIENT_UNKNOWN: message.FORBIDDEN,
    ErrorCode.POLLING_FULL: message.UNAVAILABLE,
    ErrorCode.NOT_AUTHENTICATED: message.UNAUTHORIZED,
    ErrorCode.NOT_ALLOWED: message.FORBIDDEN,
    ErrorCode.QUOTA: message.TOO_MANY_REQUESTS,
    ErrorCode.RATE: message.TOO_MANY_REQUESTS,
    ErrorCode.OVERLOADED: message.UNAVAILABLE,
    ErrorCode.STORE_UNAVAILABLE: message.UNAVAILABLE,
    ErrorCode.FLUSH_TIMEOUT: message.GATEWAY_TIMEOUT,
    ErrorCode.DRAINING: message.UNAVAILABLE,
    ErrorCode.NOT_SUPPORTED: message.NOT_IMPLEMENTED,
    ErrorCode.INTERNAL: message.INTERNAL,
}

RETRY_AFTER_S: Final = 2
"""Max-Age of 5.03 and 4.29: seconds after which the client may repeat the request (RFC 7252 section 5.9.3.4, RFC 8516)."""


def has_retry(code: int) -> bool:
    """True for response codes whose Max-Age is the least time before a retry."""
    return code in (message.UNAVAILABLE, message.TOO_MANY_REQUESTS)
