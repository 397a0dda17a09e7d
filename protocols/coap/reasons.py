"""Mapping of the words under which CoAP counts refusals to their reasons (domain/refusal.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.errors import ErrorCode
from domain.refusal import Ending, Reason

WORDS: Final[Mapping[str, Reason | None]] = {
    "format-error": Ending.MALFORMED,
    "requests": ErrorCode.OVERLOADED,
    "duplicate-table": ErrorCode.OVERLOADED,
    "challenged": ErrorCode.NOT_AUTHENTICATED,
    "observers": ErrorCode.QUOTA,
    "oscore-cose": ErrorCode.PROPERTY_ILLEGAL,
    "oscore-unknown": ErrorCode.NOT_AUTHENTICATED,
    "oscore-replay": ErrorCode.NOT_AUTHENTICATED,
    "oscore-decrypt": ErrorCode.NOT_AUTHENTICATED,
    "oscore-fresh": ErrorCode.NOT_AUTHENTICATED,
    "oscore-numbers": ErrorCode.OVERLOADED,
    "peer-rate": ErrorCode.RATE,
    "4.00": ErrorCode.ARGUMENT_ILLEGAL,
    "4.01": ErrorCode.NOT_AUTHENTICATED,
    "4.02": ErrorCode.PROPERTY_ILLEGAL,
    "4.03": ErrorCode.NOT_ALLOWED,
    "4.04": ErrorCode.MESSAGE_NOT_FOUND,
    "4.05": ErrorCode.NOT_SUPPORTED,
    "4.06": ErrorCode.MEDIA_TYPE,
    "4.08": Ending.CUT_SHORT,
    "4.09": ErrorCode.TYPE_CONFLICT,
    "4.12": ErrorCode.ARGUMENT_ILLEGAL,
    "4.13": ErrorCode.MESSAGE_TOO_LARGE,
    "4.15": ErrorCode.MEDIA_TYPE,
    "4.22": ErrorCode.FILTER_ILLEGAL,
    "4.29": ErrorCode.RATE,
    "5.00": ErrorCode.INTERNAL,
    "5.01": ErrorCode.NOT_SUPPORTED,
    "5.03": ErrorCode.OVERLOADED,
    "5.04": ErrorCode.FLUSH_TIMEOUT,
    "5.05": ErrorCode.NOT_SUPPORTED,
    "5.08": ErrorCode.ARGUMENT_ILLEGAL,
    # Ends of connections.
    "no-csm": Ending.PROTOCOL_ERROR,
    "signal-option": Ending.PROTOCOL_ERROR,
    "aborted-by-peer": Ending.GOODBYE,
    # Sessions of DTLS.
    "dtls-cookie": None,
    "dtls-stray": None,
    "dtls-evicted": Ending.TAKEN_OVER,
    # Dropped datagrams that are not refusals of a request.
    "duplicate": None,
    "stray": None,
    "ignored": None,
    "unanswered": None,
    "unsendable": None,
    "no-message-id": None,
}
