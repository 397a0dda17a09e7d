"""The log of a replica that was elected is applied and made durable before it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.replication.ports import FollowerLog

APPLY_AT_ONCE_BYTES: Final = 256 * 1024
"""Bytes of the log that a promotion applies in one turn of the loop; what is more is applied in short turns before it."""
APPLYING_NS: Final = 4 * MILLISECOND_NS
STANDS_MAX: Final = 50
"""Looks in which applying has not gone on, after which the promotion says why."""


@final
class Promotion:
    """The way of one log to its promotion."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ended = False

    def prepare(self, follower: FollowerLog, ready: Callable[[], None], failed: Callable[[str], None]) -> None:
        """Apply the log, which nobody can cut any more, until little is left; then make it durable, and call `ready`.

        The loop has other work meanwhile. `failed(reason)` is called instead when the log is broken by then.
        """
        self._apply(follower, ready, failed, -1, 0)

    def end(self) -> None:
        """Go no further; a sync that has begun still calls `ready`."""
        self._ended = True

    def _apply(
        self, follower: FollowerLog, ready: Callable[[], None], failed: Callable[[str], None], before: int, stands: int
    ) -> None:
        if self._ended:
            return
        left = follower.behind - follower.applied
        stands = stands + 1 if left == before else 0
        if left > APPLY_AT_ONCE_BYTES and stands < STANDS_MAX:
            follower.confirm(follower.written)
            later_ns = self._clock.monotonic_ns() + APPLYING_NS
            self._clock.call_at(later_ns, lambda: self._apply(follower, ready, failed, left, stands))
            return
        follower.sync(ready)
        if follower.broken is not None:
            failed(follower.broken.text)
