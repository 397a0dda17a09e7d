"""The delay before a sync: none, or until most of the clients that the last sync answered have appended again.

Clients that wait for an answer before the next append send in waves. A sync that starts with the first append of a wave splits
the wave permanently: each half waits for the sync of the other, and every sync serves half as many appends. After a sync that
answered several appends, the next one therefore waits for most of them, for at most half of a sync's duration and at most 1 ms.
After a delay without these appends, the next syncs begin at once: a single or irregular sender does not wait again soon.
"""

from __future__ import annotations

from typing import Final, final

WAVE_MIN: Final = 4
"""Least size of a wave, in appends, for which a sync waits."""
DELAY_NS_MAX: Final = 1_000_000
SYNCS_WITHOUT_DELAY: Final = 32
"""Number of syncs that begin at once after a useless delay."""


@final
class SyncDelay:
    """The delays of one log.

    _expected        number of waiting appends at which the next sync begins
    _without_delay   remaining syncs that begin at once
    """

    def __init__(self) -> None:
        self._expected = 0
        self._delay_ns = 0
        self._without_delay = 0

    def synced(self, answered: int, waiting: int, took_ns: int) -> None:
        """Record a sync that took `took_ns` and answered `answered` appends; `waiting`: appends accepted during it."""
        self._delay_ns = min(took_ns // 2, DELAY_NS_MAX)
        if self._without_delay > 0:
            self._without_delay -= 1
            self._expected = 0
        else:
            wave = answered + waiting
            self._expected = wave * 7 // 8 if wave >= WAVE_MIN else 0

    def delay_ns(self, waiting: int) -> int:
        """Delay of a sync for `waiting` appends; 0: it begins now."""
        return self._delay_ns if waiting < self._expected else 0

    def delay_in_vain(self) -> None:
        """Record that the delay has passed without the expected appends."""
        self._expected = 0
        self._without_delay = SYNCS_WITHOUT_DELAY
