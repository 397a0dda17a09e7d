"""Reasons of refusals and closed connections by the words of this protocol (domain/refusal.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.errors import ErrorCode
from domain.refusal import Ending, Reason

WORDS: Final[Mapping[str, Reason | None]] = {
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
    "host-unknown": ErrorCode.NOT_ALLOWED,
    "origin-refused": ErrorCode.NOT_ALLOWED,
    "tls-required": ErrorCode.NOT_ALLOWED,
    "uploads-full": ErrorCode.OVERLOADED,
    "value-not-found": ErrorCode.MESSAGE_NOT_FOUND,
    "user-unknown": ErrorCode.ARGUMENT_ILLEGAL,
    "context-unknown": ErrorCode.ARGUMENT_ILLEGAL,
    "event-id-invalid": ErrorCode.ARGUMENT_ILLEGAL,
    "event-id-expired": ErrorCode.OFFSET_NOT_FOUND,
    "websocket-version": ErrorCode.NOT_SUPPORTED,
    "websocket-message": ErrorCode.ARGUMENT_ILLEGAL,
    "websocket-frame-too-large": ErrorCode.MESSAGE_TOO_LARGE,
    **{f"refused-{status}": Ending.REQUEST_REFUSED for status in range(400, 600)},
}
