"""One file of the simulated disk: what reads see (the page cache) and what would be left after a power failure (the platter).

    data      0 ........................... synced ................ len(data)
    platter   durable, but for the lost ranges     un-synced: any pages of it, in any order, the last one torn
    old       bytes behind `synced` that an un-synced truncation has cut off: they may come back

A sector is written whole or not at all, and the bytes of a sector that were durable before stay so; nothing else is promised.
"""

from __future__ import annotations

import random
from typing import Final

PAGE_BYTES: Final = 4_096
SECTOR_BYTES: Final = 512


class Content:
    """The bytes of one file.

    data     what reads see
    synced   end of the bytes that the cache takes for clean
    lost     (from, to) of clean bytes that never reached the platter, because a sync of theirs failed
    old      durable bytes from `synced` on that an un-synced truncation has cut off
    """

    __slots__ = ("data", "lost", "old", "synced")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.synced = len(data)
        self.lost: list[tuple[int, int]] = []
        self.old = b""

    def copy(self) -> Content:
        """The same file in the next life of the disk."""
        other = Content(bytes(self.data))
        other.synced, other.lost, other.old = self.synced, list(self.lost), self.old
        return other

    def append(self, data: bytes) -> None:
        """Write behind the end. The sector that is begun already becomes dirty as a whole."""
        sector = len(self.data) - len(self.data) % SECTOR_BYTES
        if self.lost and self.lost[-1][1] > sector:
            self.synced = min(self.synced, max(sector, self.lost[-1][0]))
            self.lost = [(begin, min(end, sector)) for begin, end in self.lost if begin < sector]
        self.data += data

    def truncate(self, size: int) -> None:
        """Cut the file off; the platter does so at the next sync."""
        if size < self.synced:
            self.old = self._durable()[size:] + self.old
            self.synced = size
        self.lost = [(begin, min(end, size)) for begin, end in self.lost if begin < size]
        del self.data[size:]

    def flushed(self, size: int) -> None:
        """A sync of the first `size` bytes has ended well."""
        self.synced = max(self.synced, min(size, len(self.data)))
        self.old = b""

    def dropped(self, size: int) -> None:
        """A sync of the first `size` bytes has failed: the pages are clean now, and the platter never got them."""
        size = min(size, len(self.data))
        if size > self.synced:
            self.lost.append((self.synced, size))
            self.synced = size

    def after_power_failure(self, keep: int, chance: random.Random | None, page_bytes: int) -> Content:
        """The file at the next start: with `chance` any pages of what was not synced, else its first bytes up to `keep`."""
        after = Content(self._durable(keep) if chance is None else self._survivors(chance, page_bytes))
        after.synced = min(self.synced, len(after.data))
        return after

    def _durable(self, end: int = -1) -> bytes:
        """The platter's bytes up to `end` (`synced`), zeros where they were lost; it ends where only lost ones follow."""
        image = self.data[: self.synced if end < 0 else end]
        for begin, stop in self.lost:
            image[begin:stop] = bytes(min(stop, len(image)) - min(begin, len(image)))
        if self.lost and self.lost[-1][1] >= len(image):
            del image[self.lost[-1][0] :]
        return bytes(image)

    def _survivors(self, chance: random.Random, page_bytes: int) -> bytes:
        fate = chance.random()
        durable = self._durable()
        if fate < 0.15:
            return durable + (self.old if chance.random() < 0.5 else b"")
        image = bytearray(self.data)
        for begin, stop in self.lost:
            image[begin:stop] = bytes(stop - begin)
        if fate < 0.3:
            return bytes(image)
        whole = chance.random()  # the share of pages that reached the platter
        page = self.synced - self.synced % page_bytes
        while page < len(image):
            begin, stop = max(page, self.synced), min(page + page_bytes, len(image))
            if chance.random() >= whole:
                torn = chance.random() < 0.3
                first = _sector(begin, chance.randint(begin, stop)) if torn else begin
                image[first:stop] = self._underneath(chance, first, stop)
            page += page_bytes
        end = len(image) if chance.random() < 0.5 else chance.randint(self.synced, len(image))
        return bytes(image[: max(end, len(durable))])

    def _underneath(self, chance: random.Random, begin: int, stop: int) -> bytes:
        """What the platter has where a page was not written: nothing, what was cut off there, or another file's old bytes."""
        size, kind = stop - begin, chance.random()
        if kind < 0.2 and self.old:
            return (self.old[begin - self.synced : stop - self.synced] + bytes(size))[:size]
        return chance.randbytes(size) if kind < 0.3 else bytes(size)


def _sector(begin: int, at: int) -> int:
    """The end of the last whole sector at or before `at`, not before `begin`."""
    return max(begin, at - at % SECTOR_BYTES)
