"""When lease tables have to be looked at, because a lease of theirs may end. A table that is dropped leaves at once.

Tables that are due soon are under their exact time, others under a time before it: so there are few different times, and no
step costs more the more tables there are.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, final

from store.lease.table import LeaseTable

NEAR_MS: Final = 4_096
"""A lease that ends later than this is looked at up to so much before its end, and scheduled again. A power of two."""


@final
class LeaseSchedule:
    """Tables by the time at which they are due, wall-clock ms.

    count     number of tables
    _due      time -> tables, each at its `expiry_place`; a time stays without tables until it is the earliest
    _times    heap of the keys of `_due`
    """

    __slots__ = ("_due", "_times", "count")

    def __init__(self) -> None:
        self.count = 0
        self._due: dict[int, list[LeaseTable]] = {}
        self._times: list[int] = []

    def put(self, table: LeaseTable, end_ms: int, now: int) -> None:
        """Schedule `table` for `end_ms`, or before it when that is far from `now`; no longer for any other time."""
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
        """Take `table` out, if it is in: the last table of its time gets its place."""
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
        """The earliest time with tables; 0 when there are none."""
        times = self._times
        while times:
            if self._due[times[0]]:
                return times[0]
            del self._due[heappop(times)]
        return 0

    def take(self, now: int, most: int) -> list[LeaseTable]:
        """Take out at most `most` tables of the earliest time, if that is `now` or before; none when nothing is due."""
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
