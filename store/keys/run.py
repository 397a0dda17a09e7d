"""Sorted rows of one range of the log, in memory or in a file of `keys/`.

    rows | magic 4 | CRC-32 of what follows 4 | begin 8 | end 8 | rows 8 | oldest store ms 8 | newest store ms 8

The footer is written when the rows are durable: a file with a valid footer has all its rows.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from bisect import bisect_left
from typing import Final, Protocol, final

from domain.ports import File
from store.keys.row import ROW_BYTES, unpack

FOLDER: Final = "keys"
MAGIC: Final = 0x48474B52
_FRONT = struct.Struct("<II")
_FACTS = struct.Struct("<qqqqq")
FOOTER_BYTES: Final = _FRONT.size + _FACTS.size
_WINDOW: Final = 256
"""Rows that one step of a binary search reads."""


class Sorted(Protocol):
    """Sorted rows that can be searched and merged."""

    @property
    def begin(self) -> int:
        """The first position of the log whose records it covers."""

    @property
    def end(self) -> int:
        """The position after the range of the log that it covers."""

    @property
    def count(self) -> int:
        """Number of rows."""

    @property
    def first_ms(self) -> int:
        """Store time of the oldest record, in epoch ms; a lower bound."""

    @property
    def last_ms(self) -> int:
        """Store time of the newest record, in epoch ms; an upper bound."""

    def rows(self, at: int, count: int) -> array[int]:
        """At most `count` rows from index `at` on. Raises OSError."""

    def bound(self, row: int) -> int:
        """The index of the first row that is not less than `row`. Raises OSError."""


@final
class RowChunk:
    """Sorted rows in memory; the attributes are those of `Sorted`."""

    __slots__ = ("_rows", "begin", "count", "end", "first_ms", "last_ms")

    def __init__(self, rows: array[int], begin: int, end: int, first_ms: int, last_ms: int) -> None:
        self._rows = rows
        self.begin = begin
        self.end = end
        self.count = len(rows)
        self.first_ms = first_ms
        self.last_ms = last_ms

    def rows(self, at: int, count: int) -> array[int]:
        """Sorted.rows."""
        return self._rows[at : at + count]

    def bound(self, row: int) -> int:
        """Sorted.bound."""
        return bisect_left(self._rows, row)


@final
class Run:
    """Sorted rows in a file; the other attributes are those of `Sorted`.

    name    path of the file within the data directory
    file    the open file
    whole   True when the footer is durable
    """

    __slots__ = ("begin", "count", "end", "file", "first_ms", "last_ms", "name", "whole")

    def __init__(self, name: str, file: File, begin: int, end: int, count: int, first_ms: int, last_ms: int) -> None:
        self.name = name
        self.file = file
        self.begin = begin
        self.end = end
        self.count = count
        self.first_ms = first_ms
        self.last_ms = last_ms
        self.whole = False

    def footer(self) -> bytes:
        """The footer that ends the file."""
        facts = _FACTS.pack(self.begin, self.end, self.count, self.first_ms, self.last_ms)
        return _FRONT.pack(MAGIC, zlib.crc32(facts)) + facts

    def rows(self, at: int, count: int) -> array[int]:
        """Sorted.rows."""
        count = min(count, self.count - at)
        return unpack(self.file.read(at * ROW_BYTES, count * ROW_BYTES))

    def bound(self, row: int) -> int:
        """Sorted.bound. Hashes are uniform, so interpolation nearly always finds the row with the first read."""
        low, high = 0, self.count
        middle = row * self.count >> 64
        while high - low > _WINDOW:
            at = min(max(middle - _WINDOW // 2, low), high - _WINDOW)
            part = self.rows(at, _WINDOW)
            if part[0] >= row:
                high = at
            elif part[-1] < row:
                low = at + _WINDOW
            else:
                return at + bisect_left(part, row)
            middle = (low + high) // 2
        return low + bisect_left(self.rows(low, high - low), row) if low < high else low


def file_name(begin: int, end: int) -> str:
    """The name of a run's file: the range of the log that it covers, two times 20 digits."""
    return f"{FOLDER}/{begin:020d}-{end:020d}"


def open_run(name: str, file: File) -> Run | None:
    """The run in a file; None when the file has no valid footer."""
    size = file.size()
    footer = file.read(size - FOOTER_BYTES, FOOTER_BYTES) if size >= FOOTER_BYTES else b""
    if len(footer) < FOOTER_BYTES:
        return None
    magic, crc = _FRONT.unpack_from(footer)
    begin, end, count, first_ms, last_ms = _FACTS.unpack_from(footer, _FRONT.size)
    if magic != MAGIC or zlib.crc32(footer[_FRONT.size :]) != crc or size != count * ROW_BYTES + FOOTER_BYTES:
        return None
    run = Run(name, file, begin, end, count, first_ms, last_ms)
    run.whole = True
    return run
