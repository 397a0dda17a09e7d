"""Records that have arrived and have not been offered to all sessions yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import final

from domain.octets import uint64
from gateway.usecase.sessions.in_flight import QueueKey


@final
class OfferQueue:
    """The records that wait, in the order of their arrival.

    firsts   physical offset of those at offset 0, by queue
    _counts  number of those of each queue
    _taken   number of records that have been offered
    _after   (number of offered records, what is called then)
    """

    __slots__ = ("_after", "_counts", "_records", "_taken", "firsts")

    def __init__(self) -> None:
        self._records: deque[tuple[QueueKey, bytes]] = deque()
        self._counts: dict[QueueKey, int] = {}
        self.firsts: dict[QueueKey, int] = {}
        self._taken = 0
        self._after: deque[tuple[int, Callable[[], None]]] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def add(self, queue: QueueKey, data: bytes) -> None:
        """A record of a queue has arrived."""
        self._records.append((queue, data))
        self._counts[queue] = self._counts.get(queue, 0) + 1
        if not uint64(data, 20):
            self.firsts[queue] = uint64(data, 28)

    def some(self, first: int, end: int) -> Iterator[tuple[QueueKey, bytes]]:
        """Those of number `first` to `end` - 1, as far as they exist."""
        return islice(self._records, first, end)

    def offered(self) -> None:
        """The first one has been offered to all sessions."""
        queue, data = self._records.popleft()
        count = self._counts[queue] - 1
        if count:
            self._counts[queue] = count
        else:
            del self._counts[queue]
        if not uint64(data, 20) and self.firsts.get(queue) == uint64(data, 28):
            del self.firsts[queue]
        self._taken += 1
        while self._after and self._after[0][0] <= self._taken:
            self._after.popleft()[1]()

    def after(self, then: Callable[[], None]) -> None:
        """Call `then` when those that wait now have been offered. There are some."""
        self._after.append((self._taken + len(self._records), then))

    def has(self, queue: QueueKey) -> bool:
        """True when a record of the queue waits."""
        return queue in self._counts
