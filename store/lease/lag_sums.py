"""Sums over neighbouring rows, which the walk over the lag of groups keeps until one of the rows changes (lag.py)."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, final

_LAST: Final = 1 << 30


@final
class QueueSum:
    """Sum of the rows of one queue in a chunk. A position below the queue's first offset counts as that offset.

    total             sum of their positions
    low, high         lowest and highest position
    oldest_ms         store time of the message at `low`, epoch ms; 0 when unknown
    """

    __slots__ = ("count", "high", "low", "oldest_ms", "queue_id", "topic", "total")

    def __init__(self, topic: str, queue_id: int, position: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.count = 1
        self.total = position
        self.low = position
        self.high = position
        self.oldest_ms = 0

    def add(self, position: int) -> None:
        """Add the position of one more row."""
        self.count += 1
        self.total += position
        if position < self.low:
            self.low = position
        elif position > self.high:
            self.high = position


@final
class RowSums:
    """Sums of the rows of a chunk, and the rows that are outside the sums.

    queues   sums by queue; those of one topic are neighbours
    others   (begin, end) of the rows without sums, ascending: rows of the first and the last pair, which may have more rows in
             other chunks, of pairs with a live table, and of pairs with a position beyond the end of its queue
    """

    def __init__(self, queues: list[QueueSum], others: list[tuple[int, int]]) -> None:
        self.queues = queues
        self.others = others

    def depend_on(self, row: int) -> bool:
        """True when a change of this row makes the sums wrong: the row is not in `others`."""
        if not self.queues:
            return False
        at = bisect_right(self.others, (row, _LAST)) - 1
        return at < 0 or row >= self.others[at][1]
