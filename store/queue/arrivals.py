"""The latest arrivals in the queues of a topic."""

from __future__ import annotations

from typing import final


@final
class Arrivals:
    """The queues of one topic in the order in which they last got messages.

    count    arrivals so far
    _last    queue id -> number of its last arrival, ascending
    """

    __slots__ = ("_last", "count")

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self.count = 0

    def note(self, queue_id: int) -> None:
        """Note that messages of the queue have become readable."""
        self.count += 1
        self._last.pop(queue_id, None)
        self._last[queue_id] = self.count

    def since(self, count: int) -> list[int]:
        """The queues with an arrival after number `count`, the oldest arrival first."""
        found: list[int] = []
        for queue_id, number in reversed(self._last.items()):
            if number <= count:
                break
            found.append(queue_id)
        found.reverse()
        return found
