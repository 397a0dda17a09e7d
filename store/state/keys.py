"""Keys in order, cheap to add one by one: a list of short sorted lists."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final, final

_PIECE: Final = 512


@final
class SortedKeys:
    """A sorted set of byte strings."""

    __slots__ = ("_firsts", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[list[bytes]] = []
        self._firsts: list[bytes] = []

    def add(self, key: bytes) -> None:
        """Add `key`, which is not there."""
        if not self._pieces:
            self._pieces.append([key])
            self._firsts.append(key)
            return
        at = max(bisect_right(self._firsts, key) - 1, 0)
        piece = self._pieces[at]
        insort(piece, key)
        self._firsts[at] = piece[0]
        if len(piece) > 2 * _PIECE:
            self._pieces[at : at + 1] = [piece[:_PIECE], piece[_PIECE:]]
            self._firsts[at : at + 1] = [piece[0], piece[_PIECE]]

    def remove(self, key: bytes) -> None:
        """Remove `key`, which is there."""
        at = bisect_right(self._firsts, key) - 1
        piece = self._pieces[at]
        del piece[bisect_left(piece, key)]
        if piece:
            self._firsts[at] = piece[0]
        else:
            del self._pieces[at]
            del self._firsts[at]

    def since(self, key: bytes) -> Iterator[bytes]:
        """Keys from `key` on, ascending. The set must not change meanwhile."""
        at = max(bisect_right(self._firsts, key) - 1, 0)
        for index in range(at, len(self._pieces)):
            piece = self._pieces[index]
            yield from piece[bisect_left(piece, key) :] if index == at else piece
