"""Expiry of the claims of a process, by its own clock."""

from __future__ import annotations

from typing import final


@final
class ClaimExpiry:
    """Expiry that all claims of a process share. A process that was paused checks it before its timers run.

    until_ns   monotonic ns from which nothing is leased or sent any more; 0: there are no claims
    """

    __slots__ = ("until_ns",)

    def __init__(self, until_ns: int = 0) -> None:
        self.until_ns = until_ns

    def holds(self, now: int) -> bool:
        """True while the claims hold at monotonic ns `now`."""
        return now < self.until_ns
