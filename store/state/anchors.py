"""Anchors: which log segment holds the newest record of each thing. Before it is deleted, the thing is written again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import Generic, TypeVar, final

Thing = TypeVar("Thing")


@final
class Anchors(Generic[Thing]):
    """Things (state keys, queues, lease tables), ordered by the base of the segment that holds their newest record."""

    __slots__ = ("_bases",)

    def __init__(self) -> None:
        self._bases: dict[Thing, int] = {}

    def __len__(self) -> int:
        return len(self._bases)

    def touch(self, thing: Thing, base: int) -> None:
        """The newest record of `thing` is now in the segment at `base`, the newest one."""
        bases = self._bases
        if bases.get(thing) != base:
            bases.pop(thing, None)
            bases[thing] = base

    def forget(self, thing: Thing) -> None:
        """Remove `thing`, which has no record that must be kept."""
        self._bases.pop(thing, None)

    def base_of(self, thing: Thing) -> int:
        """The base of the segment that holds the newest record of `thing`, -1 when it is not known."""
        return self._bases.get(thing, -1)

    def items(self) -> Iterator[tuple[int, Thing]]:
        """(base, thing) as they are now, oldest first. Things may change during the iteration."""
        return zip(list(self._bases.values()), list(self._bases), strict=True)

    def below(self, base: int) -> list[Thing]:
        """Things whose newest record is in a segment before the one at `base`, oldest first.

        Copies and bisects instead of looking at each: a million take some milliseconds.
        """
        return list(islice(self._bases, bisect_left(list(self._bases.values()), base)))
