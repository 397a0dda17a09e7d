"""When the next sync begins: at once, or when those have come back who were answered by the last one.

Clients that wait for their answers before they ask again come in waves. A sync that starts with the first of a wave splits
it in two for good: each half waits out the other's sync, and every sync serves half as many. So after a sync that answered
several, the next waits until most of them are there, for at most half of a sync's length and never over a millisecond.
When they do not come, nothing waits again for a while: a lone or an unsteady sender never pays for it twice.
"""

from __future__ import annotations

from typing import Final, final

WAVE_MIN: Final = 4
"""Fewer are not worth waiting for."""
DELAY_NS_MAX: Final = 1_000_000
SYNCS_WITHOUT_DELAY: Final = 32
"""Syncs without waiting after a wait that was in vain."""


@final
class SyncDelay:
    """Decides for one log. Counts are appends that wait for a sync."""

    __slots__ = ("_delay_ns", "_expected", "_without_delay")

    def __init__(self) -> None:
        self._expected = 0
        self._delay_ns = 0
        self._without_delay = 0

    def synced(self, answered: int, waiting: int, took_ns: int) -> None:
        """A sync of `took_ns` has answered `answered` appends, while `waiting` more have come."""
        self._delay_ns = min(took_ns // 2, DELAY_NS_MAX)
        if self._without_delay > 0:
            self._without_delay -= 1
            self._expected = 0
        else:
            wave = answered + waiting
            self._expected = wave * 7 // 8 if wave >= WAVE_MIN else 0

    def delay_ns(self, waiting: int) -> int:
        """How long a sync for `waiting` appends may still be held; 0: begin."""
        return self._delay_ns if waiting < self._expected else 0

    def delay_in_vain(self) -> None:
        """They did not come in time."""
        self._expected = 0
        self._without_delay = SYNCS_WITHOUT_DELAY
