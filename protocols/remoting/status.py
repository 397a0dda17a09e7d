"""ErrorCode -> response code. Every error code has a row: there is no default."""

from __future__ import annotations

from typing import Final

from domain.errors import ErrorCode, Failure
from protocols.remoting import codes

TABLE: Final[dict[ErrorCode, int]] = {
    ErrorCode.TOPIC_NOT_FOUND: codes.TOPIC_NOT_EXIST,
    ErrorCode.TOPIC_DELETED: codes.TOPIC_NOT_EXIST,
    ErrorCode.TOPIC_ILLEGAL: codes.INVALID_PARAMETER,
    ErrorCode.GROUP_NOT_FOUND: codes.GROUP_NOT_EXIST,
    ErrorCode.GROUP_ILLEGAL: codes.INVALID_PARAMETER,
    ErrorCode.GROUP_OFFLINE: codes.CONSUMER_NOT_ONLINE,
    ErrorCode.SUBSCRIPTION_NOT_FOUND: codes.SYSTEM_ERROR,
    ErrorCode.QUEUE_ILLEGAL: codes.INVALID_PARAMETER,
    ErrorCode.OFFSET_NOT_FOUND: codes.QUERY_NOT_FOUND,
    ErrorCode.MESSAGE_NOT_FOUND: codes.SYSTEM_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE: codes.MESSAGE_ILLEGAL,
    ErrorCode.MESSAGE_ILLEGAL: codes.MESSAGE_ILLEGAL,
    ErrorCode.BODY_EMPTY: codes.MESSAGE_ILLEGAL,
    ErrorCode.PROPERTIES_TOO_LARGE: codes.MESSAGE_ILLEGAL,
    ErrorCode.PROPERTY_ILLEGAL: codes.MESSAGE_ILLEGAL,
    ErrorCode.TYPE_CONFLICT: codes.MESSAGE_ILLEGAL,
    ErrorCode.KEY_REUSED: codes.MESSAGE_ILLEGAL,
    ErrorCode.CHANGED: codes.SYSTEM_BUSY,
    ErrorCode.MEDIA_TYPE: codes.MESSAGE_ILLEGAL,
    ErrorCode.DELIVERY_TIME_ILLEGAL: codes.MESSAGE_ILLEGAL,
    ErrorCode.FILTER_ILLEGAL: codes.SUBSCRIPTION_PARSE_FAILED,
    ErrorCode.ARGUMENT_ILLEGAL: codes.INVALID_PARAMETER,
    ErrorCode.RECEIPT_INVALID: codes.MESSAGE_ILLEGAL,
    ErrorCode.RECEIPT_EXPIRED: codes.NO_MESSAGE,
    ErrorCode.CLIENT_UNKNOWN: codes.CONSUMER_NOT_ONLINE,
    ErrorCode.POLLING_FULL: codes.POLLING_FULL,
    ErrorCode.NOT_AUTHENTICATED: codes.NO_PERMISSION,
    ErrorCode.NOT_ALLOWED: codes.NO_PERMISSION,
    ErrorCode.QUOTA: codes.FLOW_CONTROL,
    ErrorCode.RATE: codes.FLOW_CONTROL,
    ErrorCode.OVERLOADED: codes.SYSTEM_BUSY,
    ErrorCode.STORE_UNAVAILABLE: codes.SERVICE_NOT_AVAILABLE,
    ErrorCode.FLUSH_TIMEOUT: codes.FLUSH_DISK_TIMEOUT,
    ErrorCode.DRAINING: codes.SERVICE_NOT_AVAILABLE,
    ErrorCode.NOT_SUPPORTED: codes.NOT_SUPPORTED,
    ErrorCode.INTERNAL: codes.SYSTEM_ERROR,
}


REFUSALS: Final[dict[int, ErrorCode]] = {
    codes.INVALID_PARAMETER: ErrorCode.ARGUMENT_ILLEGAL,
    codes.SYSTEM_ERROR: ErrorCode.ARGUMENT_ILLEGAL,
    codes.MESSAGE_ILLEGAL: ErrorCode.MESSAGE_ILLEGAL,
    codes.GROUP_NOT_EXIST: ErrorCode.GROUP_ILLEGAL,
    codes.SUBSCRIPTION_PARSE_FAILED: ErrorCode.FILTER_ILLEGAL,
    codes.NOT_SUPPORTED: ErrorCode.NOT_SUPPORTED,
    codes.ILLEGAL_OPERATION: ErrorCode.NOT_ALLOWED,
    codes.NO_PERMISSION: ErrorCode.NOT_ALLOWED,
}
"""Response code -> error code that a refused request is counted under when it became no command. Has every code that
`ticket.RequestError` is raised with."""

BY_REQUEST: Final[dict[tuple[int, ErrorCode], int]] = {
    (codes.GET_MEMBERS, ErrorCode.GROUP_OFFLINE): codes.SYSTEM_ERROR,
    (codes.PULL, ErrorCode.GROUP_OFFLINE): codes.SUBSCRIPTION_NOT_EXIST,
    (codes.LITE_PULL, ErrorCode.GROUP_OFFLINE): codes.SUBSCRIPTION_NOT_EXIST,
    (codes.GET_PRODUCER_CONNECTIONS, ErrorCode.GROUP_OFFLINE): codes.SYSTEM_ERROR,
    (codes.GET_RATES, ErrorCode.ARGUMENT_ILLEGAL): codes.SYSTEM_ERROR,
    (codes.GET_RUNNING_INFO, ErrorCode.GROUP_OFFLINE): codes.SYSTEM_ERROR,
    (codes.GET_RUNNING_INFO, ErrorCode.CLIENT_UNKNOWN): codes.CONSUME_TIMEOUT,
    (codes.CONSUME_DIRECTLY, ErrorCode.GROUP_OFFLINE): codes.SYSTEM_ERROR,
    (codes.CONSUME_DIRECTLY, ErrorCode.CLIENT_UNKNOWN): codes.CONSUME_TIMEOUT,
    (codes.GET_CONSUMER_STATUS, ErrorCode.CLIENT_UNKNOWN): codes.SYSTEM_ERROR,
    (codes.SEND_REPLY, ErrorCode.CLIENT_UNKNOWN): codes.SYSTEM_ERROR,
    (codes.SEND_REPLY_V2, ErrorCode.CLIENT_UNKNOWN): codes.SYSTEM_ERROR,
    (codes.DELETE_TOPIC, ErrorCode.TOPIC_NOT_FOUND): codes.SUCCESS,
    (codes.DELETE_GROUP, ErrorCode.GROUP_NOT_FOUND): codes.SUCCESS,
    (codes.REGISTER_BROKER, ErrorCode.CLIENT_UNKNOWN): codes.SYSTEM_ERROR,
    (codes.LITE_SUBSCRIPTION, ErrorCode.QUOTA): codes.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
    (codes.LITE_SUBSCRIPTION, ErrorCode.NOT_ALLOWED): codes.ILLEGAL_OPERATION,
    (codes.RECALL, ErrorCode.ARGUMENT_ILLEGAL): codes.ILLEGAL_OPERATION,
    (codes.RECALL, ErrorCode.MESSAGE_NOT_FOUND): codes.ILLEGAL_OPERATION,
}
"""(request code, error code) -> response code, where clients expect another one than TABLE has. Deleting a missing topic or
group is SUCCESS for tools."""


def response_code(failure: Failure, request: int) -> int:
    """The response code of a failure of request code `request`. DRAINING is 14, not GO_AWAY: all clients retry 14 elsewhere.
    A stored message that waits for replicas is FLUSH_SLAVE_TIMEOUT."""
    if failure.denied:
        return codes.NO_PERMISSION
    if failure.copies:
        return codes.FLUSH_SLAVE_TIMEOUT
    return BY_REQUEST.get((request, failure.code), TABLE[failure.code])
