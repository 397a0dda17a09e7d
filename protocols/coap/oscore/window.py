"""Replay window: the received sequence numbers of a device (RFC 8613, section 7.4)."""

from __future__ import annotations

from typing import Final, final

WINDOW: Final = 32
"""Numbers in the window: a number may arrive up to WINDOW - 1 below the highest."""


@final
class ReplayWindow:
    """Received sequence numbers. Those more than WINDOW - 1 below the highest count as received."""

    __slots__ = ("_highest", "_seen")

    def __init__(self, first: int) -> None:
        """Begin with `first` and all numbers below it as received."""
        self._highest = first
        self._seen = (1 << WINDOW) - 1

    def fresh(self, number: int) -> bool:
        """True when the number was not received before."""
        back = self._highest - number
        return back < 0 or (back < WINDOW and not self._seen >> back & 1)

    def mark(self, number: int) -> None:
        """Mark a fresh number as received."""
        ahead = number - self._highest
        if ahead > 0:
            self._seen = (self._seen << min(ahead, WINDOW) | 1) & ((1 << WINDOW) - 1)
            self._highest = number
        else:
            self._seen |= 1 << -ahead
