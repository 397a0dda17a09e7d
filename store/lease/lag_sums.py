"""What a walk over the lag of groups remembers of neighbouring rows, until one of them changes (lag.py)."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, final

_LAST: Final = 1 << 30


@final
class QueueSum:
    """The rows of one queue among some neighbouring rows. A position below the queue's first offset counts as that offset.

    topic, queue_id   the queue
    count             number of rows
    total             sum of their positions
    low, high         lowest and highest position
    oldest_ms         store time of the message at `low`, epoch ms; 0: not known
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
        """Count one more row."""
        self.count += 1
        self.total += position
        if position < self.low:
            self.low = position
        elif position > self.high:
            self.high = position


@final
class RowSums:
    """Neighbouring rows: the sums of those that only the ends of their queues change, and which the others are.

    queues   sums by queue, those of one topic side by side
    others   (begin, end) of the rows that are not in `queues`, ascending: those of the first and the last group, which may have
             more elsewhere, of groups with a live table, and of positions beyond the end of their queue
    """

    __slots__ = ("others", "queues")

    def __init__(self, queues: list[QueueSum], others: list[tuple[int, int]]) -> None:
        self.queues = queues
        self.others = others

    def depend_on(self, row: int) -> bool:
        """True when the sums are wrong after a change of the row with this number: it is not read with `others`."""
        if not self.queues:
            return False
        at = bisect_right(self.others, (row, _LAST)) - 1
        return at < 0 or row >= self.others[at][1]
