"""Sorted rows of one range of the log, in memory or in a file of `keys/`.

    rows | CRC-32 of each CHECKED_ROWS rows 4 | magic 4 | CRC-32 of checksums and facts 4 | facts: begin 8 | end 8 | rows 8
    | oldest store ms 8 | newest store ms 8

The checksums are in memory while the file is open, and every row is checked when it is read.
The footer is written when the rows are durable: a file with a valid footer has all its rows.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from typing import Final, Protocol, final

from domain.errors import StoreError
from domain.message.crc32 import crc32
from domain.ports import File
from store.keys.row import ROW_BYTES, unpack

FOLDER: Final = "keys"
MAGIC: Final = 0x48474B53
_FRONT = struct.Struct("<II")
_FACTS = struct.Struct("<qqqqq")
FOOTER_BYTES: Final = _FRONT.size + _FACTS.size
CHECKED_ROWS: Final = 128
_CHECKED_BYTES: Final = CHECKED_ROWS * ROW_BYTES
_WINDOW: Final = 256
"""Rows that one step of a binary search reads."""


class Sorted(Protocol):
    """Sorted rows that can be searched and merged."""

    @property
    def begin(self) -> int:
        """First position of the log whose records it covers."""

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
        """At most `count` rows from index `at` on. Raises OSError, and StoreError when they are damaged."""

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
    whole   True when the footer is durable
    damaged True when rows were found damaged: the file is deleted then, so that the next start builds it again from the log
    sums    CRC-32 of each CHECKED_ROWS rows
    """

    __slots__ = (
        "_open_crc",
        "_open_rows",
        "begin",
        "count",
        "damaged",
        "end",
        "file",
        "first_ms",
        "last_ms",
        "name",
        "sums",
        "whole",
    )

    def __init__(self, name: str, file: File, begin: int, end: int, count: int, first_ms: int, last_ms: int) -> None:
        self.name = name
        self.file = file
        self.begin = begin
        self.end = end
        self.count = count
        self.first_ms = first_ms
        self.last_ms = last_ms
        self.whole = False
        self.damaged = False
        self.sums: array[int] = array("I")
        self._open_crc = 0
        self._open_rows = 0

    def append(self, rows: bytes) -> None:
        """Append encoded rows. Raises OSError."""
        self.file.append(rows)
        at = 0
        while at < len(rows):
            part = rows[at : at + _CHECKED_BYTES - self._open_rows * ROW_BYTES]
            self._open_crc = crc32(part, self._open_crc)
            self._open_rows += len(part) // ROW_BYTES
            at += len(part)
            if self._open_rows == CHECKED_ROWS:
                self._close_sum()

    def _close_sum(self) -> None:
        self.sums.append(self._open_crc)
        self._open_crc = self._open_rows = 0

    def footer(self) -> bytes:
        """Footer of the file: the checksums, and the facts."""
        if self._open_rows:
            self._close_sum()
        sums = pack_sums(self.sums)
        facts = _FACTS.pack(self.begin, self.end, self.count, self.first_ms, self.last_ms)
        return sums + _FRONT.pack(MAGIC, crc32(facts, crc32(sums))) + facts

    def rows(self, at: int, count: int) -> array[int]:
        """Sorted.rows."""
        count = min(count, self.count - at)
        first = at // CHECKED_ROWS
        data = self.file.read(
            first * _CHECKED_BYTES, -(-(at + count) // CHECKED_ROWS) * _CHECKED_BYTES - first * _CHECKED_BYTES
        )
        data = data[: (self.count - first * CHECKED_ROWS) * ROW_BYTES]
        for place in range(0, len(data), _CHECKED_BYTES):
            group = first + place // _CHECKED_BYTES
            known = group < len(self.sums)
            if known and crc32(data[place : place + _CHECKED_BYTES]) != self.sums[group]:
                raise self._broken(group)
        skipped = (at - first * CHECKED_ROWS) * ROW_BYTES
        found = data[skipped : skipped + count * ROW_BYTES]
        if len(found) != count * ROW_BYTES:
            raise self._broken(first)
        return unpack(found)

    def _broken(self, group: int) -> StoreError:
        self.damaged = True
        text = f"{self.name} is damaged at row {group * CHECKED_ROWS}; the next start builds it again from the log"
        return StoreError(text, self.name)

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


def pack_sums(sums: array[int]) -> bytes:
    """Checksums -> bytes of a file, little-endian."""
    return struct.pack(f"<{len(sums)}I", *sums)


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
    groups = -(-count // CHECKED_ROWS)
    if magic != MAGIC or count < 0 or size != count * ROW_BYTES + 4 * groups + FOOTER_BYTES:
        return None
    sums = file.read(count * ROW_BYTES, 4 * groups)
    if crc32(footer[_FRONT.size :], crc32(sums)) != crc:
        return None
    run = Run(name, file, begin, end, count, first_ms, last_ms)
    run.sums = array("I", struct.unpack(f"<{groups}I", sums))
    run.whole = True
    return run
