"""Expiry of leases: one timer for all tables."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, final

from domain.ports import Clock, Timer
from store.lease.table import LeaseTable

_RECHECK_MS: Final = 1_000
"""The timer sleeps at most this long while leases are held: the wall clock may jump."""
_TABLES_MAX: Final = 1_024
"""Tables that one turn of the loop expires; the next turn continues with the others."""
_ENTRIES_MIN: Final = 1_024
"""Outdated entries that the schedule may hold, besides as many as there are valid ones, before it is rebuilt."""


@final
class Expiry:
    """Expires leases when they end. Reads the wall clock at least once a second while leases are held.

    expired        leases that have ended without being settled, since the start
    _schedule      heap of (wall-clock ms, serial number, table); an entry is outdated unless its time is `table.expiry_ms`
    _entries_max   length at which outdated entries are removed from `_schedule`
    _serial        number of entries made so far; it keeps the heap from comparing tables
    _timer_ms      wall-clock time for which `_timer` is set
    """

    def __init__(
        self, clock: Clock, freed: Callable[[str, str], None], ended: Callable[[LeaseTable], None] = lambda table: None
    ) -> None:
        """`ended(table)` is called when leases of a table have ended; then `freed(group, topic)`, once for all its tables."""
        self._clock = clock
        self._freed = freed
        self._ended = ended
        self._schedule: list[tuple[int, int, LeaseTable]] = []
        self._entries_max = _ENTRIES_MIN
        self._serial = 0
        self._timer: Timer | None = None
        self._timer_ms = 0
        self.expired = 0

    def schedule(self, table: LeaseTable) -> None:
        """Take account of the leases of `table`, which have changed."""
        end = table.next_end_ms()
        if end and (table.expiry_ms == 0 or end < table.expiry_ms):
            table.expiry_ms = end
            self._serial += 1
            heappush(self._schedule, (end, self._serial, table))
            if len(self._schedule) > self._entries_max:
                self._schedule = [entry for entry in self._schedule if entry[0] == entry[2].expiry_ms and not entry[2].dropped]
                heapify(self._schedule)
                self._entries_max = 2 * len(self._schedule) + _ENTRIES_MIN
            if self._timer is None or end < self._timer_ms:
                self._arm()

    def stop(self) -> None:
        """Cancel the timer: leases no longer expire."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self.stop()
        if self._schedule:
            self._timer_ms = self._schedule[0][0]
            wait = min(max(self._timer_ms - self._clock.wall_ms(), 0), _RECHECK_MS)
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait * 1_000_000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.wall_ms()
        freed: dict[tuple[str, str], None] = {}
        looked = 0
        while self._schedule and self._schedule[0][0] <= now and looked < _TABLES_MAX:
            looked += 1
            end, _, table = heappop(self._schedule)
            if end != table.expiry_ms or table.dropped:
                continue
            table.expiry_ms = 0
            ended = table.expire(now)
            if ended:
                self.expired += len(ended)
                freed[table.group, table.topic] = None
                self._ended(table)
            self.schedule(table)
        self._arm()
        for group, topic in freed:
            self._freed(group, topic)
