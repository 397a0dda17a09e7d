"""Sorted rows of one stretch of the log, in memory or in a file of `keys/`.

    rows | magic 4 | CRC-32 of what follows 4 | begin 8 | end 8 | rows 8 | oldest store ms 8 | newest store ms 8

The footer is written after the rows: behind a footer that holds, rows are whole.
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


class Sorted(Protocol):
    """What can be searched and merged: rows in order, of records from `begin` to before `end`, stored in that span of time."""

    @property
    def begin(self) -> int:
        """The first position that it speaks for."""

    @property
    def end(self) -> int:
        """The first position after those."""

    @property
    def count(self) -> int:
        """Rows."""

    @property
    def first_ms(self) -> int:
        """When the first record was stored."""

    @property
    def last_ms(self) -> int:
        """When the last record was stored."""

    def rows(self, at: int, count: int) -> array[int]:
        """Rows from index `at` on, `count` of them or as many as there are. Raises OSError."""

    def bound(self, row: int) -> int:
        """The index of the first row that is not less than `row`. Raises OSError."""


@final
class RowChunk:
    """Sorted rows in memory."""

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
    """Sorted rows in a file. `name`: within the data directory; `whole`: its footer is known to be durable."""

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
        """What ends the file."""
        facts = _FACTS.pack(self.begin, self.end, self.count, self.first_ms, self.last_ms)
        return _FRONT.pack(MAGIC, zlib.crc32(facts)) + facts

    def rows(self, at: int, count: int) -> array[int]:
        """Sorted.rows."""
        count = min(count, self.count - at)
        return unpack(self.file.read(at * ROW_BYTES, count * ROW_BYTES))

    def bound(self, row: int) -> int:
        """Sorted.bound. Hashes are spread evenly, so the first guess is nearly always right: one read."""
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
    """The name tells the stretch of the log."""
    return f"{FOLDER}/{begin:020d}-{end:020d}"


def open_run(name: str, file: File) -> Run | None:
    """The run in a file; None when it was not finished."""
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
