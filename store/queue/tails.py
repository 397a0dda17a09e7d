"""The queues that have rows in memory, in the order in which they got the first of them.

A dictionary would keep this order too. But an access to its first entries steps over all entries removed before them, its
growth copies it in one turn, and it needs three times the memory.
"""

from __future__ import annotations

from typing import Final, final

from store.queue.queue import Queue

_BITS: Final = 10
_MASK: Final = (1 << _BITS) - 1


@final
class Tails:
    """The queues at their `queue.tail_place`, which rises: parts of 1,024 places, None at the place of a removed queue.

    _parts    the places, from part number `_first` on; None for an empty part
    """

    def __init__(self) -> None:
        self._parts: list[list[Queue | None] | None] = []
        self._counts: list[int] = []
        self._first = 0
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, queue: Queue) -> None:
        """Add `queue`, which is not in it, as the newest."""
        place = self._next
        at = (place >> _BITS) - self._first
        if at == len(self._parts):
            self._parts.append([])
            self._counts.append(0)
        part = self._parts[at]
        assert part is not None
        part.append(queue)
        self._counts[at] += 1
        queue.tail_place = place
        self._next = place + 1

    def remove(self, queue: Queue) -> None:
        """Take `queue` out, which is in it."""
        place = queue.tail_place
        at = (place >> _BITS) - self._first
        part = self._parts[at]
        assert part is not None
        part[place & _MASK] = None
        self._counts[at] -= 1
        if self._counts[at]:
            return
        if at == len(self._parts) - 1:
            # Places are not given twice: the next queue begins a new part.
            self._next = (self._first + at + 1) << _BITS
        self._parts[at] = None
        gone = 0
        while gone < len(self._parts) and self._parts[gone] is None:
            gone += 1
        if gone:
            del self._parts[:gone]
            del self._counts[:gone]
            self._first += gone

    def oldest(self, most: int) -> list[Queue]:
        """At most `most` queues, the oldest first."""
        found: list[Queue] = []
        for part in self._parts:
            if part is None:
                continue
            for queue in part:
                if queue is not None:
                    found.append(queue)
                    if len(found) == most:
                        return found
        return found
