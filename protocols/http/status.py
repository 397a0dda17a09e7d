"""HTTP status of every ErrorCode (RFC 9110, section 15), and the reason phrase of each status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.errors import ErrorCode

STATUS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.TOPIC_NOT_FOUND: 404,
    ErrorCode.TOPIC_DELETED: 410,
    ErrorCode.TOPIC_ILLEGAL: 400,
    ErrorCode.GROUP_NOT_FOUND: 404,
    ErrorCode.GROUP_ILLEGAL: 400,
    ErrorCode.GROUP_OFFLINE: 409,
    ErrorCode.SUBSCRIPTION_NOT_FOUND: 404,
    ErrorCode.QUEUE_ILLEGAL: 400,
    ErrorCode.OFFSET_NOT_FOUND: 404,
    ErrorCode.MESSAGE_NOT_FOUND: 404,
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.MESSAGE_ILLEGAL: 400,
    ErrorCode.BODY_EMPTY: 400,
    ErrorCode.PROPERTIES_TOO_LARGE: 413,
    ErrorCode.PROPERTY_ILLEGAL: 400,
    ErrorCode.TYPE_CONFLICT: 409,
    ErrorCode.KEY_REUSED: 422,
    ErrorCode.CHANGED: 409,
    ErrorCode.MEDIA_TYPE: 415,
    ErrorCode.DELIVERY_TIME_ILLEGAL: 400,
    ErrorCode.FILTER_ILLEGAL: 400,
    ErrorCode.ARGUMENT_ILLEGAL: 400,
    ErrorCode.RECEIPT_INVALID: 400,
    ErrorCode.RECEIPT_EXPIRED: 410,
    ErrorCode.CLIENT_UNKNOWN: 409,
    ErrorCode.POLLING_FULL: 429,
    ErrorCode.NOT_AUTHENTICATED: 401,
    ErrorCode.NOT_ALLOWED: 403,
    ErrorCode.QUOTA: 429,
    ErrorCode.RATE: 429,
    ErrorCode.OVERLOADED: 503,
    ErrorCode.STORE_UNAVAILABLE: 503,
    ErrorCode.FLUSH_TIMEOUT: 504,
    ErrorCode.DRAINING: 503,
    ErrorCode.NOT_SUPPORTED: 501,
    ErrorCode.INTERNAL: 500,
}

RETRY_AFTER_S: Final[Mapping[int, int]] = {429: 1, 503: 1}
"""Status -> seconds in Retry-After."""

PHRASE: Final[Mapping[int, str]] = {
    101: "Switching Protocols",
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    207: "Multi-Status",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    417: "Expectation Failed",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    426: "Upgrade Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}
