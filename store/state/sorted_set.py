"""A sorted set as a list of short sorted lists, so that adding one item moves few others and a walk can be made in steps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Final, Generic, Protocol, TypeVar, final

LIST_ITEMS: Final = 512
"""A list with more than twice as many items is split behind this many."""


class Text(Protocol):
    """An item of a SortedSet: `str`, in the order of code points, or `bytes`. All items of one set have the same type."""

    def __lt__(self, other: Any, /) -> bool:
        """True when it comes before `other`. TypeError: `other` has another type."""

    def startswith(self, prefix: Any, /) -> bool:
        """True when it begins with `prefix`."""


T = TypeVar("T", bound=Text)


@final
class SortedSet(Generic[T]):
    """A sorted set of strings, or of byte strings.

    _lists    sorted lists of at most 2 * LIST_ITEMS items, none empty, in order
    _firsts   first item of each list
    """

    def __init__(self) -> None:
        self._lists: list[list[T]] = []
        self._firsts: list[T] = []

    def add(self, item: T) -> None:
        """Add `item`, which must not be in the set."""
        lists, firsts = self._lists, self._firsts
        if not lists:
            lists.append([item])
            firsts.append(item)
            return
        items = lists[-1]
        if items[-1] < item:
            if len(items) < 2 * LIST_ITEMS:
                items.append(item)
            else:
                lists.append([item])
                firsts.append(item)
            return
        at = max(bisect_right(firsts, item) - 1, 0)
        items = lists[at]
        insort(items, item)
        firsts[at] = items[0]
        if len(items) > 2 * LIST_ITEMS:
            lists[at : at + 1] = [items[:LIST_ITEMS], items[LIST_ITEMS:]]
            firsts[at : at + 1] = [items[0], items[LIST_ITEMS]]

    def remove(self, item: T) -> None:
        """Remove `item`, which must be in the set."""
        at = bisect_right(self._firsts, item) - 1
        items = self._lists[at]
        del items[bisect_left(items, item)]
        if items:
            self._firsts[at] = items[0]
        else:
            del self._lists[at]
            del self._firsts[at]

    def __contains__(self, item: T) -> bool:
        at = bisect_right(self._firsts, item) - 1
        if at < 0:
            return False
        items = self._lists[at]
        place = bisect_left(items, item)
        return place < len(items) and items[place] == item

    def take(self, prefix: T) -> list[list[T]]:
        """Remove the items that begin with `prefix`; returns them, in lists. It costs by lists, not by items."""
        taken: list[list[T]] = []
        lists, firsts = self._lists, self._firsts
        at = max(bisect_right(firsts, prefix) - 1, 0)
        begin = at
        kept: list[list[T]] = []
        while at < len(lists) and (not prefix < firsts[at] or firsts[at].startswith(prefix)):
            items = lists[at]
            low = bisect_left(items, prefix)
            high = low
            if low < len(items) and items[low].startswith(prefix):
                high = len(items) if items[-1].startswith(prefix) else first_behind(items, prefix, low)
            if high - low == len(items):
                taken.append(items)
            else:
                if high > low:
                    taken.append(items[low:high])
                    del items[low:high]
                kept.append(items)
            at += 1
        lists[begin:at] = kept
        firsts[begin:at] = [items[0] for items in kept]
        return taken

    def after(self, item: T) -> list[T]:
        """Some items behind `item`, ascending: at most 2 * LIST_ITEMS, and none at the end. One step of a walk over all."""
        lists = self._lists
        at = max(bisect_right(self._firsts, item) - 1, 0)
        while at < len(lists):
            items = lists[at]
            found = items[bisect_right(items, item) :]
            if found:
                return found
            at += 1
        return []

    def since(self, item: T) -> Iterator[T]:
        """Items from `item` on, ascending. The set must not change during the iteration."""
        at = max(bisect_right(self._firsts, item) - 1, 0)
        for index in range(at, len(self._lists)):
            items = self._lists[index]
            yield from items[bisect_left(items, item) :] if index == at else items

    def all(self) -> list[T]:
        """All items, ascending."""
        return [item for items in self._lists for item in items]


def first_behind(items: list[T], prefix: T, low: int) -> int:
    """The place of the first of the sorted `items`, from `low` on, that does not begin with `prefix`."""
    while low < len(items) and items[low].startswith(prefix):
        low += 1
    return low
