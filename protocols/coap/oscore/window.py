"""Which sequence numbers of a device have come (RFC 8613, section 7.4)."""

from __future__ import annotations

from typing import Final, final

WINDOW: Final = 32
"""How far below the highest number another one may come late."""


@final
class ReplayWindow:
    """Numbers that have come. Those more than WINDOW - 1 below the highest count as come."""

    __slots__ = ("_highest", "_seen")

    def __init__(self, first: int) -> None:
        """`first` has come, and so has every number below it."""
        self._highest = first
        self._seen = (1 << WINDOW) - 1

    def fresh(self, number: int) -> bool:
        """True when the number has not come."""
        back = self._highest - number
        return back < 0 or (back < WINDOW and not self._seen >> back & 1)

    def mark(self, number: int) -> None:
        """The number, which was fresh, has come."""
        ahead = number - self._highest
        if ahead > 0:
            self._seen = (self._seen << min(ahead, WINDOW) | 1) & ((1 << WINDOW) - 1)
            self._highest = number
        else:
            self._seen |= 1 << -ahead
