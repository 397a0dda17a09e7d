"""State of an elected replica: its log is applied and made durable before it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.replication.ports import FollowerLog

APPLY_AT_ONCE_BYTES: Final = 256 * 1024
"""Unapplied bytes that a promotion applies in one turn of the loop; more are applied in short turns before that."""
APPLYING_NS: Final = 4 * MILLISECOND_NS
STANDS_MAX: Final = 50
"""Checks in a row without progress, after which the promotion stops waiting: it then reports a broken log."""


@final
class PromotingState:
    """A replica that was elected and does not lead yet."""

    def __init__(self, follower: FollowerLog, clock: Clock) -> None:
        self._follower = follower
        self._clock = clock
        self._ended = False

    def start(self, ready: Callable[[], None], failed: Callable[[str], None]) -> None:
        """Apply the log until at most APPLY_AT_ONCE_BYTES are left, then sync it, and call `ready`.

        Nothing can truncate the log by now; a later life may, so no checkpoint covers what is applied here. The loop serves
        other work in between. `failed(reason)`: the log is broken.
        """
        self._follower.end_checkpoints()
        self._apply(ready, failed, -1, 0)

    def leave(self) -> None:
        """Stop. A sync in progress still calls `ready`."""
        self._ended = True

    def doing(self, group: str) -> str:
        """The activity of this replica of `group`, text for people."""
        return f"this replica was elected to lead {group}, and makes its log durable"

    def _apply(self, ready: Callable[[], None], failed: Callable[[str], None], before: int, stands: int) -> None:
        if self._ended:
            return
        follower = self._follower
        left = follower.behind - follower.applied
        stands = stands + 1 if left == before else 0
        if left > APPLY_AT_ONCE_BYTES and stands < STANDS_MAX:
            follower.confirm(follower.written)
            later_ns = self._clock.monotonic_ns() + APPLYING_NS
            self._clock.call_at(later_ns, lambda: self._apply(ready, failed, left, stands))
            return
        follower.sync(ready)
        if follower.broken is not None:
            failed(follower.broken.text)
