"""Refusals of brokers as Failures: response codes (RocketMQ's ResponseCode) mapped to the codes of the domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.errors import ErrorCode, Failure, GatewayError
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

REMARK_CHARS_MAX: Final = 300
"""Characters of a broker's remark that are passed on; some contain a stack trace."""

_CODES: Final[Mapping[int, ErrorCode]] = {
    codes.SYSTEM_ERROR: ErrorCode.STORE_UNAVAILABLE,
    codes.SYSTEM_BUSY: ErrorCode.OVERLOADED,
    codes.FLOW_CONTROL: ErrorCode.OVERLOADED,
    codes.NOT_SUPPORTED: ErrorCode.NOT_SUPPORTED,
    codes.SERVICE_NOT_AVAILABLE: ErrorCode.STORE_UNAVAILABLE,
    codes.NO_PERMISSION: ErrorCode.NOT_ALLOWED,
    codes.TOPIC_NOT_EXIST: ErrorCode.TOPIC_NOT_FOUND,
    codes.GROUP_NOT_EXIST: ErrorCode.GROUP_NOT_FOUND,
    codes.SUBSCRIPTION_PARSE_FAILED: ErrorCode.FILTER_ILLEGAL,
    codes.INVALID_PARAMETER: ErrorCode.ARGUMENT_ILLEGAL,
    codes.ILLEGAL_OPERATION: ErrorCode.ARGUMENT_ILLEGAL,
    codes.MESSAGE_ILLEGAL: ErrorCode.MESSAGE_ILLEGAL,
    codes.POLLING_FULL: ErrorCode.POLLING_FULL,
}


class BrokerAnswerError(GatewayError):
    """The answer of a server cannot be understood; the text says what it was."""


def refusal(broker: str, frame: Frame, known: Mapping[int, ErrorCode] | None = None) -> Failure:
    """Why `broker` did not do what it was asked for. `known`: codes with another meaning for this request.

    A code that nobody knows is STORE_UNAVAILABLE: the request may be repeated, and the text has code and remark.
    """
    code = frame.code
    found = (known or {}).get(code) or _CODES.get(code, ErrorCode.STORE_UNAVAILABLE)
    remark = frame.remark[:REMARK_CHARS_MAX]
    return Failure(found, f"broker {broker} refuses it: code {code}{f', {remark}' if remark else ''}")
