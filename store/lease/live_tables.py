"""The live lease tables by place, in 64 dictionaries: growth copies one of them per turn, not a million entries."""

from __future__ import annotations

from typing import Final, final

from store.lease.pull_progress import Place
from store.lease.table import LeaseTable

PARTS: Final = 64
"""A power of two."""


@final
class LiveTables:
    """Mapping of (group, topic, queue id) -> live table."""

    def __init__(self) -> None:
        self._parts: list[dict[Place, LeaseTable]] = [{} for _ in range(PARTS)]

    def __len__(self) -> int:
        return sum([len(part) for part in self._parts])

    def __contains__(self, place: Place) -> bool:
        return place in self._parts[hash(place) & (PARTS - 1)]

    def __getitem__(self, place: Place) -> LeaseTable:
        return self._parts[hash(place) & (PARTS - 1)][place]

    def __setitem__(self, place: Place, table: LeaseTable) -> None:
        self._parts[hash(place) & (PARTS - 1)][place] = table

    def __delitem__(self, place: Place) -> None:
        del self._parts[hash(place) & (PARTS - 1)][place]

    def get(self, place: Place) -> LeaseTable | None:
        """Live table of a place, or None."""
        return self._parts[hash(place) & (PARTS - 1)].get(place)

    def pop(self, place: Place) -> LeaseTable | None:
        """Remove and return the live table of a place; None without one."""
        return self._parts[hash(place) & (PARTS - 1)].pop(place, None)

    def values(self) -> list[LeaseTable]:
        """All tables. Takes time proportional to their number."""
        return [table for part in self._parts for table in part.values()]
