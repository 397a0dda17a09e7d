"""RocketMQ's `Status.code` of every `ErrorCode`. Failures are in the Status of the response, and not in grpc-status."""

from __future__ import annotations

from typing import Final

from domain.errors import ErrorCode, Failure
from protocols.grpc import wire
from protocols.grpc.messages import messaging_pb2 as pb

CODES: Final[dict[ErrorCode, int]] = {
    ErrorCode.TOPIC_NOT_FOUND: pb.TOPIC_NOT_FOUND,
    ErrorCode.TOPIC_DELETED: pb.TOPIC_NOT_FOUND,
    ErrorCode.TOPIC_ILLEGAL: pb.ILLEGAL_TOPIC,
    ErrorCode.GROUP_NOT_FOUND: pb.CONSUMER_GROUP_NOT_FOUND,
    ErrorCode.GROUP_ILLEGAL: pb.ILLEGAL_CONSUMER_GROUP,
    ErrorCode.GROUP_OFFLINE: pb.NOT_FOUND,
    ErrorCode.SUBSCRIPTION_NOT_FOUND: pb.NOT_FOUND,
    ErrorCode.QUEUE_ILLEGAL: pb.BAD_REQUEST,
    ErrorCode.OFFSET_NOT_FOUND: pb.OFFSET_NOT_FOUND,
    # Not 40401, the code of an empty poll: some SDKs treat it as success of any request.
    ErrorCode.MESSAGE_NOT_FOUND: pb.NOT_FOUND,
    ErrorCode.MESSAGE_TOO_LARGE: pb.MESSAGE_BODY_TOO_LARGE,
    ErrorCode.MESSAGE_ILLEGAL: pb.MESSAGE_CORRUPTED,
    ErrorCode.BODY_EMPTY: pb.MESSAGE_BODY_EMPTY,
    ErrorCode.PROPERTIES_TOO_LARGE: pb.MESSAGE_PROPERTIES_TOO_LARGE,
    ErrorCode.PROPERTY_ILLEGAL: pb.ILLEGAL_MESSAGE_PROPERTY_KEY,
    ErrorCode.TYPE_CONFLICT: pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
    ErrorCode.KEY_REUSED: pb.ILLEGAL_MESSAGE_KEY,
    ErrorCode.CHANGED: pb.INTERNAL_SERVER_ERROR,
    ErrorCode.MEDIA_TYPE: pb.BAD_REQUEST,
    ErrorCode.DELIVERY_TIME_ILLEGAL: pb.ILLEGAL_DELIVERY_TIME,
    ErrorCode.FILTER_ILLEGAL: pb.ILLEGAL_FILTER_EXPRESSION,
    ErrorCode.ARGUMENT_ILLEGAL: pb.BAD_REQUEST,
    ErrorCode.RECEIPT_INVALID: pb.INVALID_RECEIPT_HANDLE,
    ErrorCode.RECEIPT_EXPIRED: pb.INVALID_RECEIPT_HANDLE,
    ErrorCode.CLIENT_UNKNOWN: pb.UNRECOGNIZED_CLIENT_TYPE,
    ErrorCode.POLLING_FULL: pb.TOO_MANY_REQUESTS,
    ErrorCode.NOT_AUTHENTICATED: pb.UNAUTHORIZED,
    # RocketMQ's proxy answers a denial by access rules with 40100; 40300 means that the queue does not permit the operation.
    ErrorCode.NOT_ALLOWED: pb.FORBIDDEN,
    ErrorCode.QUOTA: pb.TOO_MANY_REQUESTS,
    ErrorCode.RATE: pb.TOO_MANY_REQUESTS,
    ErrorCode.OVERLOADED: pb.TOO_MANY_REQUESTS,
    ErrorCode.STORE_UNAVAILABLE: pb.HA_NOT_AVAILABLE,
    ErrorCode.FLUSH_TIMEOUT: pb.MASTER_PERSISTENCE_TIMEOUT,
    ErrorCode.DRAINING: pb.INTERNAL_SERVER_ERROR,
    ErrorCode.NOT_SUPPORTED: pb.NOT_IMPLEMENTED,
    ErrorCode.INTERNAL: pb.INTERNAL_SERVER_ERROR,
}


REFUSALS: Final[dict[int, str]] = {
    **{code: error.value for error, code in reversed(CODES.items())},
    pb.SLAVE_PERSISTENCE_TIMEOUT: ErrorCode.FLUSH_TIMEOUT.value,
    pb.BAD_REQUEST: ErrorCode.ARGUMENT_ILLEGAL.value,
    pb.TOO_MANY_REQUESTS: ErrorCode.RATE.value,
    pb.INTERNAL_SERVER_ERROR: ErrorCode.ARGUMENT_ILLEGAL.value,
    pb.CLIENT_ID_REQUIRED: ErrorCode.CLIENT_UNKNOWN.value,
    pb.ILLEGAL_INVISIBLE_TIME: ErrorCode.ARGUMENT_ILLEGAL.value,
    pb.ILLEGAL_POLLING_TIME: ErrorCode.ARGUMENT_ILLEGAL.value,
    pb.INVALID_TRANSACTION_ID: ErrorCode.ARGUMENT_ILLEGAL.value,
    pb.ILLEGAL_MESSAGE_TAG: ErrorCode.PROPERTY_ILLEGAL.value,
    pb.ILLEGAL_MESSAGE_ID: ErrorCode.ARGUMENT_ILLEGAL.value,
    pb.ILLEGAL_MESSAGE_KEY: ErrorCode.PROPERTY_ILLEGAL.value,
    pb.ILLEGAL_MESSAGE_GROUP: ErrorCode.PROPERTY_ILLEGAL.value,
    pb.ILLEGAL_LITE_TOPIC: ErrorCode.TOPIC_ILLEGAL.value,
    pb.PAYLOAD_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE.value,
    pb.LITE_TOPIC_QUOTA_EXCEEDED: ErrorCode.QUOTA.value,
    pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: ErrorCode.QUOTA.value,
}
"""Status code of a refusal by the adapter -> the name under which it is counted."""


def content(code: int, text: str = "") -> bytes:
    """An encoded Status message. An empty text becomes the name of the code, since SDKs show the text to users."""
    name = text or pb.Code.Name(code)
    return b"\x08" + wire.varint(code) + wire.text(b"\x12", name.encode("utf-8", "replace"))


def status(code: int, text: str = "") -> bytes:
    """An encoded Status in field 1, where every response type has it."""
    return wire.text(b"\x0a", content(code, text))


def of(failure: Failure) -> tuple[int, str]:
    """Code and text of a failure. A denial by policies is UNAUTHORIZED, like a wrong signature (ResponseBuilder).

    A stored message with too few replicas is SLAVE_PERSISTENCE_TIMEOUT, also where there is no replica: for that
    RocketMQ's proxy has HA_NOT_AVAILABLE, which here is the answer to a message that is not known to be stored.
    """
    code = CODES[failure.code]
    if failure.denied:
        code = pb.UNAUTHORIZED
    elif failure.copies:
        code = pb.SLAVE_PERSISTENCE_TIMEOUT
    return code, failure.text or failure.code.value


STATUS_OK: Final = status(pb.OK)
