"""Keeps the newest bytes of some queues together: counts the bytes of new rows, and trims the oldest rows beyond a bound.

    new rows are read once -> pieces (end, bytes) -> the oldest rows beyond the bound are read again and trimmed

The first count, and a count for which more is new than known, goes backwards from the newest row of each queue as far as the
bound reaches: it never reads rows that are not kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Final, final

from store.queue.index import QueueIndex
from store.queue.queue import Queue

PIECE_ROWS: Final = 512
"""Rows of one piece, and of one read, at most."""
_AHEAD_ROWS: Final = 64
_NEWEST: Final = 1 << 62


@final
class CountedRange:
    """The counted rows of one queue, in pieces.

    begin          offset of the first counted row
    ends           offset after each piece, ascending
    place          log position of the row at `begin`, while counting backwards
    excess         rows from `begin` on that are beyond the bound
    """

    __slots__ = ("begin", "ends", "excess", "excess_bytes", "place", "queue", "sizes", "total")

    def __init__(self, queue: Queue, begin: int) -> None:
        self.queue = queue
        self.begin = begin
        self.ends: deque[int] = deque()
        self.sizes: deque[int] = deque()
        self.total = 0
        self.place = _NEWEST
        self.excess = 0
        self.excess_bytes = 0

    @property
    def end(self) -> int:
        """The offset after the last counted row."""
        return self.ends[-1] if self.ends else self.begin

    def push(self, end: int, size: int) -> None:
        """Count the rows from the current end to `end`, which have `size` bytes."""
        begun = self.ends[-2] if len(self.ends) > 1 else self.begin
        if self.ends and end - begun <= PIECE_ROWS:
            self.ends[-1] = end
            self.sizes[-1] += size
        else:
            self.ends.append(end)
            self.sizes.append(size)
        self.total += size

    def push_front(self, begin: int, size: int) -> None:
        """Count the rows from `begin` to the current begin, which have `size` bytes."""
        self.ends.appendleft(self.begin)
        self.sizes.appendleft(size)
        self.begin = begin
        self.total += size

    def drop_excess(self) -> None:
        """Remove the excess rows from the count."""
        size = self.excess_bytes
        self.begin += self.excess
        self.total -= size
        while self.ends and self.ends[0] <= self.begin:
            self.ends.popleft()
            size -= self.sizes.popleft()
        if self.sizes:
            self.sizes[0] -= size
        self.excess = self.excess_bytes = 0


@final
class ByteWindow:
    """Counts of a set of queues that share one bound of bytes, and keep their newest messages by log position."""

    __slots__ = ("_index", "_ranges")

    def __init__(self, index: QueueIndex) -> None:
        self._index = index
        self._ranges: dict[Queue, CountedRange] = {}

    def steps(self, queues: Sequence[Queue], bound: int) -> Generator[int, None, int]:
        """Count, then trim the rows beyond `bound` bytes. Returns the log position below which all is trimmed, or 0.

        Yields the number of rows read since the last yield, so that the caller can pause. One call at a time. Raises OSError.
        """
        ranges = self._ranges
        for gone in ranges.keys() - set(queues):
            del ranges[gone]
        for queue in queues:
            self._index.refresh(queue)
            if queue not in ranges:
                ranges[queue] = CountedRange(queue, queue.first)
        self._restart_when_cheaper(bound)
        for counted in list(ranges.values()):
            yield from self._count_new(counted)
        yield from self._count_older(bound)
        cut = yield from self._find_excess(bound)
        for counted in ranges.values():
            begin = counted.begin + counted.excess
            counted.drop_excess()
            if self._index.contains(counted.queue):
                self._index.trim(counted.queue, begin)
        return cut

    def _restart_when_cheaper(self, bound: int) -> None:
        """Reset the counts when counting backwards from the newest rows reads fewer rows."""
        ranges = self._ranges.values()
        known = sum(counted.end - counted.begin for counted in ranges)
        new = sum(counted.queue.visible - counted.end for counted in ranges)
        if new > known or sum(counted.total for counted in ranges) > 2 * bound:
            for queue in self._ranges:
                self._ranges[queue] = CountedRange(queue, queue.visible)

    def _count_new(self, counted: CountedRange) -> Iterator[int]:
        """Count the new rows of a queue, and remove the rows below its `first`."""
        queue = counted.queue
        first = queue.first
        while counted.ends and counted.ends[0] <= first:
            counted.begin = counted.ends.popleft()
            counted.total -= counted.sizes.popleft()
        if counted.begin < first:
            if counted.ends:
                rows = self._index.rows(queue, first, counted.ends[0] - first)
                size = sum(row[1] for row in rows)
                counted.total += size - counted.sizes[0]
                counted.sizes[0] = size
                yield len(rows)
            counted.begin = first
        while counted.end < queue.visible:
            begin = counted.end
            rows = self._index.rows(queue, begin, min(PIECE_ROWS, queue.visible - begin))
            if not rows:
                return
            counted.push(begin + len(rows), sum(row[1] for row in rows))
            yield len(rows)

    def _count_older(self, bound: int) -> Iterator[int]:
        """Count older rows, always of the queue whose count begins at the highest log position, until the bound is reached.

        A queue's oldest piece may reach further back than the counts of other queues, so it does not count towards the bound.
        """
        while True:
            open_ones = [each for each in self._ranges.values() if each.begin > each.queue.first]
            if not open_ones:
                return
            sure = sum(each.total - (each.sizes[0] if each.sizes else 0) for each in self._ranges.values())
            if sure > bound:
                return
            counted = max(open_ones, key=lambda each: each.place)
            begin = max(counted.begin - PIECE_ROWS, counted.queue.first)
            rows = self._index.rows(counted.queue, begin, counted.begin - begin)
            if len(rows) < counted.begin - begin:
                # The older rows cannot be read: they are treated as deleted.
                rows = []
            if rows:
                counted.place = rows[0][0]
                counted.push_front(begin, sum(row[1] for row in rows))
            elif self._index.contains(counted.queue):
                self._index.trim(counted.queue, counted.begin)
            else:
                return
            yield len(rows) + 1

    def _find_excess(self, bound: int) -> Generator[int, None, int]:
        """Find the oldest rows beyond `bound`; returns the log position after the last of them, 0 when there are none."""
        over = sum(counted.total for counted in self._ranges.values()) - bound
        cut = 0
        if over <= 0:
            return 0
        oldest = merge(*map(self._oldest, self._ranges.values()), key=itemgetter(0))
        for count, (place, size, counted) in enumerate(oldest, 1):
            counted.excess += 1
            counted.excess_bytes += size
            over -= size
            cut = place + 1
            if over <= 0:
                break
            if count % PIECE_ROWS == 0:
                yield PIECE_ROWS
        return cut

    def _oldest(self, counted: CountedRange) -> Iterator[tuple[int, int, CountedRange]]:
        """(log position, bytes, count) of counted rows, oldest first."""
        offset, limit = counted.begin, _AHEAD_ROWS
        while offset < counted.end:
            rows = self._index.rows(counted.queue, offset, min(limit, counted.end - offset))
            if not rows:
                return
            for row in rows:
                yield row[0], row[1], counted
            offset += len(rows)
            limit = min(2 * limit, PIECE_ROWS)
