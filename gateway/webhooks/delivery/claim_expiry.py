"""How long a process may deliver under its claims, by its own clock."""

from __future__ import annotations

from typing import final


@final
class ClaimExpiry:
    """All claims of a process end together. A process that was paused finds here, before its timers run, that it is too late.

    until_ns   monotonic ns from which nothing is leased or sent any more; 0: there are no claims
    """

    __slots__ = ("until_ns",)

    def __init__(self, until_ns: int = 0) -> None:
        self.until_ns = until_ns

    def holds(self, now: int) -> bool:
        """Whether the claims hold at monotonic ns `now`."""
        return now < self.until_ns
