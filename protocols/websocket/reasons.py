"""The words that WebSocket counts refusals and closed connections under -> their reasons (domain/refusal.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.errors import ErrorCode
from domain.refusal import Ending, Reason

WORDS: Final[Mapping[str, Reason | None]] = {
    "websocket-handshake": Ending.HANDSHAKE_DEADLINE,
    "websocket-cut-short": Ending.CUT_SHORT,
    "websocket-frame-too-large": ErrorCode.MESSAGE_TOO_LARGE,
}
