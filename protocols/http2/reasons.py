"""Reasons of refusals and closed connections by the words of this protocol (domain/refusal.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.refusal import Ending, Reason

WORDS: Final[Mapping[str, Reason | None]] = {
    "goaway": Ending.GOODBYE,
    "ping-timeout": Ending.KEEP_ALIVE,
}
