"""Messages that came back behind a member that reads by its offset alone: it is given them out of turn.

    given         in an answer of their own, after which the member goes on from where it was; the lease is fleeting
    handled       when the member reports what it cannot have reported with the message unread:
                  above the head as it was then, for something newer has been handled since;
                  or above the message and below what it had reported before, for it went back for it
    given again   when it asks for what is before the offset where it was, when it goes on by another connection, when it
                  goes, and after a restart: then nobody knows whether the answer has arrived

Clients report the lowest offset that they hold (ProcessQueue.removeMessage, of both Java and Go), some never a lower one than
before: for these only the first way is left. A pull has one answer at a time, and is in order with the reports before it.
"""

from __future__ import annotations

from heapq import heappop
from typing import Final

from store.lease.table import LeaseTable

REPORTS_MOVED_BACK: Final = -1
"""In place of a puller's latest report: it has gone back by itself once."""


def find(table: LeaseTable, offset: int, limit: int) -> list[int]:
    """At most `limit` offsets below `offset`, lowest first, that are free and that the puller has not in hand."""
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
    """The puller has been leased `offsets`, which are before the one that it asked for."""
    # With others out of turn in its hands, what it reports may be about those.
    before = 0 if table.late_returns else max(table.reported, 0)
    for at in offsets:
        lease = table.leases[at]
        lease.fleeting = True
        table.late_returns[at] = (lease.pop_ms, before, table.head)


def settle_handled(table: LeaseTable, reported: int) -> None:
    """The puller has reported a position: settle what that tells to be handled."""
    for at, (pop_ms, before, beyond) in list(table.late_returns.items()):
        if reported > beyond or at < reported < before:
            table.settle(at, pop_ms)
            del table.late_returns[at]
    if table.reported != REPORTS_MOVED_BACK:
        table.reported = reported


def puller_moved_back(table: LeaseTable, now: int) -> bool:
    """The puller asks for what is before the offset where it was: it missed an answer, or somebody set it back.

    Then what it reports next may be of before that, and no sign of what it has handled. True when something is free again.
    """
    table.reported = REPORTS_MOVED_BACK
    return release_leased(table, now)


def release_leased(table: LeaseTable, now: int) -> bool:
    """What the puller was given out of turn may not have arrived: it is free again. True when there was something."""
    late, table.late_returns = table.late_returns, {}
    freed = [at for at, (pop_ms, _, _) in late.items() if table.release(at, pop_ms, now) is not None]
    return bool(freed)
