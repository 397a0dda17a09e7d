"""Candidates: the queues of a large topic in which a receive of a group may find a message.

A queue that a receive has found empty stops being a candidate until a message arrives in it or its lease table changes. The
cost of a receive thus grows with the messages to lease, not with the queues of the topic.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, final

from store.lease.table import LeaseTable
from store.queue.queue import Arrivals, TopicEntry

QUEUES_FEW: Final = 16
"""Largest topic, in queues, without candidates: receives visit all its queues."""
VISITS_MAX: Final = 256
"""Candidates per receive, at most."""


@final
class Candidates:
    """The candidates of one group in one topic, in the order of the visits.

    At first all queues are candidates; those not yet visited are kept as a range of ids, without an object for each.

    _fresh    lowest queue id of the range not yet visited
    _end      end of that range, exclusive
    _queue    ids of the other candidates, which are visited after the range
    _seen     number of the topic's last arrival that `update` has processed
    """

    __slots__ = ("_end", "_fresh", "_queue", "_seen", "_there", "entry")

    def __init__(self, entry: TopicEntry) -> None:
        if entry.arrivals is None:
            entry.arrivals = Arrivals()
        self.entry = entry
        self._fresh = 0
        self._end = entry.queues.highest() + 1
        ids: list[int] = []
        if self._end > 2 * len(entry.queues):  # most numbers of the range would be visited in vain
            ids = sorted(entry.queues)
            self._end = 0
        self._queue: deque[int] = deque(ids)
        self._there = set(ids)
        self._seen = entry.arrivals.count

    def __len__(self) -> int:
        """Number of candidates. Unused ids in the range count until they are visited."""
        return self._end - self._fresh + len(self._queue)

    @property
    def visits_max(self) -> int:
        """Limit on the candidates that one receive visits."""
        return min(len(self), VISITS_MAX)

    def add(self, queue_id: int) -> None:
        """Make a queue a candidate; it is visited after the others."""
        if not self._fresh <= queue_id < self._end and queue_id not in self._there:
            self._there.add(queue_id)
            self._queue.append(queue_id)

    def take(self) -> int:
        """Remove and return the next candidate, -1 when there is none."""
        if self._fresh < self._end:
            self._fresh += 1
            return self._fresh - 1
        if not self._queue:
            return -1
        queue_id = self._queue.popleft()
        self._there.discard(queue_id)
        return queue_id

    def visited(self, queue_id: int, more: bool) -> None:
        """Record the visit of a queue that `take` returned; `more`: it stays a candidate, as the last one."""
        if more:
            self.add(queue_id)
        elif self._queue and self._queue[-1] == queue_id:  # its table has changed in the visit
            self._queue.pop()
            self._there.discard(queue_id)

    def update(self) -> None:
        """Add the queues in which messages have arrived."""
        arrivals = self.entry.arrivals
        if arrivals is not None and arrivals.count != self._seen:
            for queue_id in arrivals.since(self._seen):
                self.add(queue_id)
            self._seen = arrivals.count

    def first(self, most: int) -> list[int]:
        """Ids of the next candidates, at most `most`; they stay candidates."""
        fresh = range(self._fresh, min(self._end, self._fresh + most))
        return [*fresh, *islice(self._queue, most - len(fresh))]


@final
class AllCandidates:
    """The candidates of all groups in large topics: `places` by (group, topic)."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, str], Candidates] = {}

    def of(self, group: str, entry: TopicEntry) -> Candidates | None:
        """Candidates of a group, up to date; None for a topic of at most QUEUES_FEW queues."""
        if len(entry.queues) <= QUEUES_FEW:
            return None
        place = (group, entry.name)
        found = self.places.get(place)
        if found is None or found.entry is not entry:
            found = self.places[place] = Candidates(entry)
        found.update()
        return found

    def changed(self, table: LeaseTable) -> None:
        """Make the queue of a changed table a candidate again."""
        found = self.places.get((table.group, table.topic))
        if found is not None:
            found.add(table.queue_id)

    def drop(self, group: str, topic: str) -> None:
        """Forget the candidates of a group in a topic whose tables are removed."""
        self.places.pop((group, topic), None)
