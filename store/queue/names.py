"""The names of all topics, sorted, so that a walk over a million of them can be made in steps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Final, final

_LIST_NAMES: Final = 512


@final
class SortedNames:
    """A sorted set of names.

    _lists    sorted lists of at most 2 * _LIST_NAMES names, none empty, in order
    _firsts   first name of each list
    """

    __slots__ = ("_firsts", "_lists")

    def __init__(self) -> None:
        self._lists: list[list[str]] = []
        self._firsts: list[str] = []

    def add(self, name: str) -> None:
        """Add `name`, which must not be in the set."""
        lists, firsts = self._lists, self._firsts
        if not lists:
            lists.append([name])
            firsts.append(name)
            return
        names = lists[-1]
        if name > names[-1]:
            if len(names) < 2 * _LIST_NAMES:
                names.append(name)
            else:
                lists.append([name])
                firsts.append(name)
            return
        at = max(bisect_right(firsts, name) - 1, 0)
        names = lists[at]
        insort(names, name)
        firsts[at] = names[0]
        if len(names) > 2 * _LIST_NAMES:
            lists[at : at + 1] = [names[:_LIST_NAMES], names[_LIST_NAMES:]]
            firsts[at : at + 1] = [names[0], names[_LIST_NAMES]]

    def remove(self, name: str) -> None:
        """Remove `name`, which must be in the set."""
        at = bisect_right(self._firsts, name) - 1
        names = self._lists[at]
        del names[bisect_left(names, name)]
        if names:
            self._firsts[at] = names[0]
        else:
            del self._lists[at]
            del self._firsts[at]

    def after(self, name: str) -> list[str]:
        """Some names behind `name`, ascending: at most 2 * _LIST_NAMES, and none when there is none."""
        lists = self._lists
        at = max(bisect_right(self._firsts, name) - 1, 0)
        while at < len(lists):
            names = lists[at]
            found = names[bisect_right(names, name) :]
            if found:
                return found
            at += 1
        return []

    def all(self) -> list[str]:
        """All names, ascending."""
        return [name for names in self._lists for name in names]
