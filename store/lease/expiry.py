"""Expiry of leases: one timer for all tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.ports import Clock, Timer
from store.lease.schedule import LeaseSchedule
from store.lease.table import LeaseTable

_RECHECK_MS: Final = 1_000
"""Longest sleep of the timer while leases are held: the wall clock may jump."""
_TABLES_MAX: Final = 1_024
"""Tables per turn of the loop; the next turn continues with the others."""


@final
class Expiry:
    """Expires leases at their end. Reads the wall clock at least once a second while leases are held.

    expired        leases that have ended without being settled, since the start
    _timer_ms      wall-clock time for which `_timer` is set, 0 for none
    """

    def __init__(
        self,
        clock: Clock,
        schedule: LeaseSchedule,
        freed: Callable[[str, str], None],
        ended: Callable[[LeaseTable], None],
    ) -> None:
        """Call `ended(table)` for each table with ended leases, then `freed(group, topic)` once for all tables of the pair."""
        self._clock = clock
        self._freed = freed
        self._ended = ended
        self._schedule = schedule
        self._timer: Timer | None = None
        self._timer_ms = 0
        self.expired = 0

    def schedule(self, table: LeaseTable) -> None:
        """Schedule `table`, whose leases have changed, for its earliest end."""
        end = table.next_end_ms()
        if end and (table.expiry_ms == 0 or end < table.expiry_ms):
            self._schedule.put(table, end, self._clock.wall_ms())
            if self._timer is None or table.expiry_ms < self._timer_ms:
                self._arm()

    def stop(self) -> None:
        """Cancel the timer; leases no longer expire."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self.stop()
        self._timer_ms = self._schedule.first_ms()
        if self._timer_ms:
            wait = min(max(self._timer_ms - self._clock.wall_ms(), 0), _RECHECK_MS)
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait * 1_000_000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.wall_ms()
        freed: dict[tuple[str, str], None] = {}
        looked = 0
        due = self._schedule.take(now, _TABLES_MAX)
        while due:
            looked += len(due)
            for table in due:
                ended = table.expire(now)
                if ended:
                    self.expired += len(ended)
                    freed[table.group, table.topic] = None
                    self._ended(table)
                self.schedule(table)
            due = self._schedule.take(now, _TABLES_MAX - looked) if looked < _TABLES_MAX else []
        self._arm()
        for group, topic in freed:
            self._freed(group, topic)
