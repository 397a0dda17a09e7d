"""The reasons of remoting for refusals and closed connections, as reasons of domain/refusal.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.refusal import Ending, Reason

WORDS: Final[Mapping[str, Reason | None]] = {
    "frame-length": Ending.MALFORMED,
    "frame-header": Ending.MALFORMED,
}
