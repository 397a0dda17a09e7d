"""Late returns: messages that became free behind the offset of a puller without a retry topic.

    delivered     in a separate answer, whose next offset is the puller's own; the lease is fleeting
    settled       by a report of the puller that proves that it has handled the message:
                  above the head at the time of delivery, since the puller has handled a newer message;
                  or above the message and below the previous report, since the puller's lowest held offset went back to it
    redelivered   after the puller pulls from a lower offset than expected, reconnects or leaves, and after a restart:
                  the answer may have been lost

Clients report the lowest offset that they hold (ProcessQueue.removeMessage, of both Java and Go). Some clients never report a
lower offset than before: for them only the first proof works. A pull has one answer at a time, in order with earlier reports.
"""

from __future__ import annotations

from heapq import heappop
from typing import Final

from store.lease.table import LeaseTable

REPORTS_MOVED_BACK: Final = -1
"""Value of `LeaseTable.reported` after the puller itself has gone back: lower reports no longer prove anything."""


def find(table: LeaseTable, offset: int, limit: int) -> list[int]:
    """Free offsets below `offset` that the puller does not hold: the lowest `limit` of them, ascending."""
    returned = table.free_heap
    while returned:
        lease = table.leases.get(returned[0])
        if lease is not None and lease.free:
            break
        heappop(returned)
    if not returned or returned[0] >= offset:
        return []
    found = [at for at, lease in table.leases.items() if at < offset and lease.free and (lease.fleeting or not lease.pulled)]
    return sorted(found)[:limit]


def record_leased(table: LeaseTable, offsets: list[int]) -> None:
    """Record that the puller has leased `offsets`, which are below the offset of its pull."""
    # A lower report may be about other late returns that the puller holds: the second proof is then not available.
    before = 0 if table.late_returns else max(table.reported, 0)
    for at in offsets:
        lease = table.leases[at]
        lease.fleeting = True
        table.late_returns[at] = (lease.pop_ms, before, table.head)


def settle_handled(table: LeaseTable, reported: int) -> None:
    """Settle the late returns whose handling the puller's report of the position `reported` proves."""
    for at, (pop_ms, before, beyond) in list(table.late_returns.items()):
        if reported > beyond or at < reported < before:
            table.settle(at, pop_ms)
            del table.late_returns[at]
    if table.reported != REPORTS_MOVED_BACK:
        table.reported = reported


def puller_moved_back(table: LeaseTable, now: int) -> bool:
    """Free the late returns of a puller that pulls from a lower offset than expected: it lost an answer, or was reset.

    Its next reports may be of lower offsets and no longer prove anything. True when a lease was freed.
    """
    table.reported = REPORTS_MOVED_BACK
    return release_leased(table, now)


def release_leased(table: LeaseTable, now: int) -> bool:
    """Free the late returns that the puller holds, since their answer may be lost. True when a lease was freed."""
    late, table.late_returns = table.late_returns, {}
    freed = [at for at, (pop_ms, _, _) in late.items() if table.release(at, pop_ms, now) is not None]
    return bool(freed)
