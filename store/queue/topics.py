"""The topics by name. One dictionary of a million would be copied in one turn when it grows; of these parts only one is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from store.queue.queue import TopicEntry
from store.state.sorted_set import SortedSet

_PARTS: Final = 64
"""A power of two."""
_SLICE: Final = 512
"""Entries of one step of an iteration."""


@final
class TopicMap:
    """Name -> entry. Iterations go by name: the order of the parts differs from process to process.

    _parts   the entries, by the hash of their names
    """

    __slots__ = ("_names", "_parts")

    def __init__(self) -> None:
        self._parts: list[dict[str, TopicEntry]] = [{} for _ in range(_PARTS)]
        self._names: SortedSet[str] = SortedSet()

    def __len__(self) -> int:
        return sum([len(part) for part in self._parts])

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __getitem__(self, name: str) -> TopicEntry:
        entry = self.get(name)
        if entry is None:
            raise KeyError(name)
        return entry

    def __setitem__(self, name: str, entry: TopicEntry) -> None:
        part = self._parts[hash(name) & (_PARTS - 1)]
        if name not in part:
            self._names.add(name)
        part[name] = entry

    def entries(self, names: list[str], flushed: bool) -> list[TopicEntry]:
        """The entries of `names`, ascending; those that are missing are made. `flushed`: as TopicEntry has it."""
        found: list[TopicEntry] = []
        parts = self._parts
        for name in names:
            fresh = TopicEntry(name, flushed, 0)
            entry = parts[hash(name) & (_PARTS - 1)].setdefault(name, fresh)
            if entry is fresh:
                self._names.add(name)
            found.append(entry)
        return found

    def get(self, name: str) -> TopicEntry | None:
        """The entry of the topic `name`; None when the index has no such topic."""
        return self._parts[hash(name) & (_PARTS - 1)].get(name)

    def names(self) -> list[str]:
        """All names, ascending."""
        return self._names.all()

    def names_after(self, name: str) -> list[str]:
        """Some names behind `name`, ascending; none when there is none."""
        return self._names.after(name)

    def values(self) -> list[TopicEntry]:
        """All entries, by name."""
        return [self[name] for name in self._names.all()]

    def slices(self) -> Iterator[list[TopicEntry]]:
        """All entries, by name, in lists of at most _SLICE. Entries may come and go between two of them."""
        names = self._names.after("")
        while names:
            for at in range(0, len(names), _SLICE):
                found: list[TopicEntry] = []
                for name in names[at : at + _SLICE]:
                    entry = self.get(name)
                    if entry is not None:
                        found.append(entry)
                yield found
            names = self._names.after(names[-1])
