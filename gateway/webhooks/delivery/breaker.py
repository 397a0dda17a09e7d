"""Circuit breaker: after FAILURES_MAX failures in a row, a sink gets no deliveries for a while, then a single trial."""

from __future__ import annotations

from typing import Final, final

from domain.limits import SECOND_NS

FAILURES_MAX: Final = 5
"""Failures in a row that open the breaker."""
OPEN_NS: Final = 5 * SECOND_NS
"""Open time after the first opening; it doubles with each further one, up to OPEN_NS_MAX."""
OPEN_NS_MAX: Final = 300 * SECOND_NS
CLOSED: Final = "closed"
OPEN: Final = "open"
HALF_OPEN: Final = "half-open"


@final
class Breaker:
    """The breaker of one sink.

    until_ns   monotonic ns at which an open breaker lets one delivery through; 0: it is closed
    """

    __slots__ = ("_failures", "_opened", "until_ns")

    def __init__(self) -> None:
        self._failures = 0
        self._opened = 0
        self.until_ns = 0

    def state(self, now: int) -> str:
        """CLOSED, OPEN or HALF_OPEN."""
        if not self.until_ns:
            return CLOSED
        return OPEN if now < self.until_ns else HALF_OPEN

    def room(self, now: int, under_way: int, most: int) -> int:
        """Number of deliveries that may start. Closed: `most` in flight at most; half open: one in flight; open: none."""
        state = self.state(now)
        if state == OPEN:
            return 0
        return max(0, (1 if state == HALF_OPEN else most) - under_way)

    def succeeded(self) -> bool:
        """Count a successful delivery. True: it closed the breaker."""
        was_open = self.until_ns != 0
        self._failures = self._opened = self.until_ns = 0
        return was_open

    def failed(self, now: int, wait_ns: int = 0) -> bool:
        """Count a transient failure. `wait_ns`: wait that the sink requests. True: the breaker opens now."""
        self._failures += 1
        state = self.state(now)
        if state == OPEN or (state == CLOSED and self._failures < FAILURES_MAX):
            return False
        open_ns = min(OPEN_NS << min(self._opened, 20), OPEN_NS_MAX)
        self._opened += 1
        self.until_ns = now + max(open_ns, wait_ns)
        return True
