"""How many bytes the newest messages of some queues are: known from what has come and gone since the last time it was asked.

    new rows are read once -> pieces (end, bytes) -> oldest rows beyond the bound are read once more, and go

The first time, and when more is new or too much than is known, it is counted anew: from the newest row backwards, as far as the
bound reaches. What is not kept is never read then.
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
"""Rows of one piece at most, and of one read."""
_AHEAD_ROWS: Final = 64
_NEWEST: Final = 1 << 62


@final
class Stretch:
    """Rows of one queue from `begin` on that are counted: pieces by the offset after each, and their bytes.

    place   of the row at `begin` in the log, while it is counted backwards
    shed    rows from `begin` on that are found to be too much, and their bytes
    """

    __slots__ = ("begin", "ends", "place", "queue", "shed", "shed_bytes", "total", "weights")

    def __init__(self, queue: Queue, begin: int) -> None:
        self.queue = queue
        self.begin = begin
        self.ends: deque[int] = deque()
        self.weights: deque[int] = deque()
        self.total = 0
        self.place = _NEWEST
        self.shed = 0
        self.shed_bytes = 0

    @property
    def end(self) -> int:
        """The offset after the last row."""
        return self.ends[-1] if self.ends else self.begin

    def push(self, end: int, weight: int) -> None:
        """Rows up to `end` have come, `weight` bytes."""
        begun = self.ends[-2] if len(self.ends) > 1 else self.begin
        if self.ends and end - begun <= PIECE_ROWS:
            self.ends[-1] = end
            self.weights[-1] += weight
        else:
            self.ends.append(end)
            self.weights.append(weight)
        self.total += weight

    def push_front(self, begin: int, weight: int) -> None:
        """Rows from `begin` on are counted too."""
        self.ends.appendleft(self.begin)
        self.weights.appendleft(weight)
        self.begin = begin
        self.total += weight

    def drop(self) -> None:
        """What is shed is no more."""
        weight = self.shed_bytes
        self.begin += self.shed
        self.total -= weight
        while self.ends and self.ends[0] <= self.begin:
            self.ends.popleft()
            weight -= self.weights.popleft()
        if self.weights:
            self.weights[0] -= weight
        self.shed = self.shed_bytes = 0


@final
class ByteWindow:
    """Queues that keep so many bytes together: their newest messages, by place in the log."""

    __slots__ = ("_index", "_stretches")

    def __init__(self, index: QueueIndex) -> None:
        self._index = index
        self._stretches: dict[Queue, Stretch] = {}

    def steps(self, queues: Sequence[Queue], bound: int) -> Generator[int, None, int]:
        """Count, and trim what is beyond `bound` bytes; a position of the log comes back, before which all is gone, or 0.

        Yields how many rows were read since the last time: the caller may go on later. One call at a time. Raises OSError.
        """
        stretches = self._stretches
        for gone in stretches.keys() - set(queues):
            del stretches[gone]
        for queue in queues:
            self._index.refresh(queue)
            if queue not in stretches:
                stretches[queue] = Stretch(queue, queue.first)
        self._leave(bound)
        for stretch in list(stretches.values()):
            yield from self._follow(stretch)
        yield from self._reach_back(bound)
        cut = yield from self._shed(bound)
        for stretch in stretches.values():
            begin = stretch.begin + stretch.shed
            stretch.drop()
            if self._index.holds(stretch.queue):
                self._index.trim(stretch.queue, begin)
        return cut

    def _leave(self, bound: int) -> None:
        """Forget what is known when counting anew, from the newest row backwards, is less work."""
        stretches = self._stretches.values()
        known = sum(stretch.end - stretch.begin for stretch in stretches)
        new = sum(stretch.queue.visible - stretch.end for stretch in stretches)
        if new > known or sum(stretch.total for stretch in stretches) > 2 * bound:
            for queue in self._stretches:
                self._stretches[queue] = Stretch(queue, queue.visible)

    def _follow(self, stretch: Stretch) -> Iterator[int]:
        """Count what has come to a queue, and no more what is gone from it."""
        queue = stretch.queue
        first = queue.first
        while stretch.ends and stretch.ends[0] <= first:
            stretch.begin = stretch.ends.popleft()
            stretch.total -= stretch.weights.popleft()
        if stretch.begin < first:
            if stretch.ends:
                rows = self._index.rows(queue, first, stretch.ends[0] - first)
                weight = sum(row[1] for row in rows)
                stretch.total += weight - stretch.weights[0]
                stretch.weights[0] = weight
                yield len(rows)
            stretch.begin = first
        while stretch.end < queue.visible:
            begin = stretch.end
            rows = self._index.rows(queue, begin, min(PIECE_ROWS, queue.visible - begin))
            if not rows:
                return
            stretch.push(begin + len(rows), sum(row[1] for row in rows))
            yield len(rows)

    def _reach_back(self, bound: int) -> Iterator[int]:
        """Count older rows, always in the queue that is least far back, until what is older in any queue is too much.

        What a queue has counted of before the beginning of another is in its oldest piece: without these, it is enough.
        """
        while True:
            open_ones = [each for each in self._stretches.values() if each.begin > each.queue.first]
            if not open_ones:
                return
            sure = sum(each.total - (each.weights[0] if each.weights else 0) for each in self._stretches.values())
            if sure > bound:
                return
            stretch = max(open_ones, key=lambda each: each.place)
            begin = max(stretch.begin - PIECE_ROWS, stretch.queue.first)
            rows = self._index.rows(stretch.queue, begin, stretch.begin - begin)
            if len(rows) < stretch.begin - begin:
                # The rest cannot be read: it is as good as gone.
                rows = []
            if rows:
                stretch.place = rows[0][0]
                stretch.push_front(begin, sum(row[1] for row in rows))
            elif self._index.holds(stretch.queue):
                self._index.trim(stretch.queue, stretch.begin)
            else:
                return
            yield len(rows) + 1

    def _shed(self, bound: int) -> Generator[int, None, int]:
        """Find the oldest rows that are too much; the place after the last of them, 0 when there are none."""
        over = sum(stretch.total for stretch in self._stretches.values()) - bound
        cut = 0
        if over <= 0:
            return 0
        oldest = merge(*map(self._oldest, self._stretches.values()), key=itemgetter(0))
        for count, (place, weight, stretch) in enumerate(oldest, 1):
            stretch.shed += 1
            stretch.shed_bytes += weight
            over -= weight
            cut = place + 1
            if over <= 0:
                break
            if count % PIECE_ROWS == 0:
                yield PIECE_ROWS
        return cut

    def _oldest(self, stretch: Stretch) -> Iterator[tuple[int, int, Stretch]]:
        """(place, bytes, stretch) of counted rows, oldest first."""
        offset, limit = stretch.begin, _AHEAD_ROWS
        while offset < stretch.end:
            rows = self._index.rows(stretch.queue, offset, min(limit, stretch.end - offset))
            if not rows:
                return
            for row in rows:
                yield row[0], row[1], stretch
            offset += len(rows)
            limit = min(2 * limit, PIECE_ROWS)
