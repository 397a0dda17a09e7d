"""Times at which lease tables are checked for ended leases. A dropped table is removed at once.

A table that is due soon has its exact time, any other an earlier, rounded one. The number of different times is thus bounded,
and the cost of a step does not grow with the number of tables.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, final

from store.lease.table import LeaseTable

NEAR_MS: Final = 4_096
"""Rounding of times further away than this: the table is checked up to NEAR_MS early, and scheduled again. A power of two."""


@final
class LeaseSchedule:
    """Tables by the time at which they are due, wall-clock ms.

    _due      time -> tables, each at index `expiry_place`; an empty time is removed when it is the earliest
    _times    heap of the keys of `_due`
    """

    __slots__ = ("_due", "_times", "count")

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
