"""A sorted set of keys as a list of short sorted lists, so that adding one key moves few others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final, final

_LIST_KEYS: Final = 512


@final
class SortedKeys:
    """A sorted set of byte strings.

    _lists    sorted lists of at most 2 * _LIST_KEYS keys, none empty, in order
    _firsts   first key of each list
    """

    __slots__ = ("_firsts", "_lists")

    def __init__(self) -> None:
        self._lists: list[list[bytes]] = []
        self._firsts: list[bytes] = []

    def add(self, key: bytes) -> None:
        """Add `key`, which must not be in the set."""
        if not self._lists:
            self._lists.append([key])
            self._firsts.append(key)
            return
        keys = self._lists[-1]
        if key > keys[-1]:
            if len(keys) < 2 * _LIST_KEYS:
                keys.append(key)
            else:
                self._lists.append([key])
                self._firsts.append(key)
            return
        at = max(bisect_right(self._firsts, key) - 1, 0)
        keys = self._lists[at]
        insort(keys, key)
        self._firsts[at] = keys[0]
        if len(keys) > 2 * _LIST_KEYS:
            self._lists[at : at + 1] = [keys[:_LIST_KEYS], keys[_LIST_KEYS:]]
            self._firsts[at : at + 1] = [keys[0], keys[_LIST_KEYS]]

    def remove(self, key: bytes) -> None:
        """Remove `key`, which must be in the set."""
        at = bisect_right(self._firsts, key) - 1
        keys = self._lists[at]
        del keys[bisect_left(keys, key)]
        if keys:
            self._firsts[at] = keys[0]
        else:
            del self._lists[at]
            del self._firsts[at]

    def __contains__(self, key: bytes) -> bool:
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return False
        keys = self._lists[at]
        place = bisect_left(keys, key)
        return place < len(keys) and keys[place] == key

    def take(self, prefix: bytes) -> list[list[bytes]]:
        """Remove the keys that begin with `prefix`; returns them, in lists. Its cost is that of the lists, not of the keys."""
        taken: list[list[bytes]] = []
        lists, firsts = self._lists, self._firsts
        at = max(bisect_right(firsts, prefix) - 1, 0)
        begin = at
        kept: list[list[bytes]] = []
        while at < len(lists) and (firsts[at] <= prefix or firsts[at].startswith(prefix)):
            keys = lists[at]
            low = bisect_left(keys, prefix)
            high = low
            if low < len(keys) and keys[low].startswith(prefix):
                high = len(keys) if keys[-1].startswith(prefix) else first_behind(keys, prefix, low)
            if high - low == len(keys):
                taken.append(keys)
            else:
                if high > low:
                    taken.append(keys[low:high])
                    del keys[low:high]
                kept.append(keys)
            at += 1
        lists[begin:at] = kept
        firsts[begin:at] = [keys[0] for keys in kept]
        return taken

    def after(self, key: bytes) -> list[bytes]:
        """Some keys behind `key`, ascending: at most 2 * _LIST_KEYS, and none at the end. One step of a walk over all."""
        lists = self._lists
        at = max(bisect_right(self._firsts, key) - 1, 0)
        while at < len(lists):
            keys = lists[at]
            found = keys[bisect_right(keys, key) :]
            if found:
                return found
            at += 1
        return []

    def since(self, key: bytes) -> Iterator[bytes]:
        """Keys from `key` on, ascending. The set must not change during the iteration."""
        at = max(bisect_right(self._firsts, key) - 1, 0)
        for index in range(at, len(self._lists)):
            keys = self._lists[index]
            yield from keys[bisect_left(keys, key) :] if index == at else keys


def first_behind(keys: list[bytes], prefix: bytes, low: int) -> int:
    """The place of the first of the sorted `keys`, from `low` on, that does not begin with `prefix`."""
    while low < len(keys) and keys[low].startswith(prefix):
        low += 1
    return low
