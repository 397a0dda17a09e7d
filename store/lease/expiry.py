"""Expiry of leases: one timer for all tables, and the times at which tables are checked for ended leases.

A table that is due soon has its exact time, any other an earlier, rounded one. The number of different times is thus bounded,
and the cost of a step does not grow with the number of tables. A dropped table is removed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, final

from domain.ports import Clock, Timer
from store.lease.table import LeaseTable

NEAR_MS: Final = 4_096
"""Rounding of times further away than this: the table is checked up to NEAR_MS early, and scheduled again. A power of two."""


@final
class LeaseSchedule:
    """Tables by the time at which they are due, wall-clock ms.

    _due      time -> tables, each at index `expiry_place`; an empty time is removed when it is the earliest
    """

    def __init__(self) -> None:
        self.count = 0
        self._due: dict[int, list[LeaseTable]] = {}
        self._times: list[int] = []

    def put(self, table: LeaseTable, end_ms: int, now: int) -> None:
        """Schedule `table` for `end_ms`, rounded down when it is far from `now`; replaces an earlier schedule."""
        self.remove(table)
        due_ms = end_ms if end_ms - now <= NEAR_MS else end_ms - end_ms % NEAR_MS
        tables = self._due.get(due_ms)
        if tables is None:
            tables = self._due[due_ms] = []
            heappush(self._times, due_ms)
        table.expiry_ms = due_ms
        table.expiry_place = len(tables)
        tables.append(table)
        self.count += 1

    def remove(self, table: LeaseTable) -> None:
        """Remove `table` if it is scheduled; the last table of its time moves to its index."""
        due_ms = table.expiry_ms
        if due_ms == 0:
            return
        tables = self._due[due_ms]
        last = tables.pop()
        if last is not table:
            place = table.expiry_place
            tables[place] = last
            last.expiry_place = place
        table.expiry_ms = 0
        self.count -= 1

    def first_ms(self) -> int:
        """Earliest time with tables, 0 for none."""
        times = self._times
        while times:
            if self._due[times[0]]:
                return times[0]
            del self._due[heappop(times)]
        return 0

    def take(self, now: int, most: int) -> list[LeaseTable]:
        """Remove and return at most `most` tables of the earliest time, if it is `now` or earlier."""
        first_ms = self.first_ms()
        if first_ms == 0 or first_ms > now:
            return []
        tables = self._due[first_ms]
        if len(tables) <= most:
            taken = tables
            del self._due[heappop(self._times)]
        else:
            taken = tables[-most:]
            del tables[-most:]
        for table in taken:
            table.expiry_ms = 0
        self.count -= len(taken)
        return taken


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
