"""The delay before a sync: it begins at once, or when most of the clients that the last sync answered have appended again.

Clients that wait for an answer before they send again append in waves. A sync that starts with the first append of a wave
splits the wave for good: each half waits for the sync of the other, and every sync serves half as many appends. So after a
sync that answered several appends, the next one waits for most of them, for at most half of a sync's duration and at most
1 ms. After a wait in vain, the next syncs begin at once: a single or an irregular sender does not wait again soon.
"""

from __future__ import annotations

from typing import Final, final

WAVE_MIN: Final = 4
"""Appends of a wave, below which a sync does not wait."""
DELAY_NS_MAX: Final = 1_000_000
SYNCS_WITHOUT_DELAY: Final = 32
"""Syncs that begin at once after a wait in vain."""


@final
class SyncDelay:
    """Decides for one log.

    _expected        appends that have to wait before the next sync begins
    _delay_ns        how long it waits for them at most
    _without_delay   syncs left that begin at once
    """

    __slots__ = ("_delay_ns", "_expected", "_without_delay")

    def __init__(self) -> None:
        self._expected = 0
        self._delay_ns = 0
        self._without_delay = 0

    def synced(self, answered: int, waiting: int, took_ns: int) -> None:
        """Note a sync that took `took_ns` and answered `answered` appends, during which `waiting` more were accepted."""
        self._delay_ns = min(took_ns // 2, DELAY_NS_MAX)
        if self._without_delay > 0:
            self._without_delay -= 1
            self._expected = 0
        else:
            wave = answered + waiting
            self._expected = wave * 7 // 8 if wave >= WAVE_MIN else 0

    def delay_ns(self, waiting: int) -> int:
        """How long a sync for `waiting` appends is to be delayed; 0 when it is to begin now."""
        return self._delay_ns if waiting < self._expected else 0

    def delay_in_vain(self) -> None:
        """Note that the delay has passed without the expected appends."""
        self._expected = 0
        self._without_delay = SYNCS_WITHOUT_DELAY
