"""A heap whose keys change their places and leave at any time: what they leave behind goes when it is first, or too much."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar, final

SPARE: Final = 16
"""Places that keys have left which a heap may have in any case."""

Key = TypeVar("Key")


@final
class LazyHeap(Generic[Key]):
    """Keys by their places, (rank, number): the lowest is first. Keys that can have the same place have an order of their own.

    Invariant: `_heap` has the places of all keys, and at most as many again, and SPARE, that were left.

    places   key -> its place
    """

    __slots__ = ("_heap", "places")

    def __init__(self) -> None:
        self.places: dict[Key, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Key]] = []

    def put(self, key: Key, rank: int, number: int = 0) -> None:
        """Put a key at a place. A key that is there already moves."""
        self.places[key] = (rank, number)
        heappush(self._heap, (rank, number, key))
        self._trim()

    def remove(self, key: Key) -> None:
        """Remove a key. No effect when it is not there."""
        if self.places.pop(key, None) is not None:
            self._trim()

    def first(self) -> tuple[int, int, Key] | None:
        """(rank, number, key) of the first one; None: there is none."""
        heap = self._heap
        while heap:
            found = heap[0]
            now = self.places.get(found[2])
            if now is not None and now[0] == found[0] and now[1] == found[1]:  # compiled, such a tuple has no identity
                return found
            heappop(heap)
        return None

    def _trim(self) -> None:
        if len(self._heap) > 2 * len(self.places) + SPARE:
            self._heap = [(place[0], place[1], key) for key, place in self.places.items()]
            heapify(self._heap)
