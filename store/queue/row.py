"""One row of the queue index: position, size, tag hash and store time of a message.

physical offset 8 | size 4 | tag hash 4 (for timers: milliseconds within the bucket) | store ms 8
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Final

ROW_BYTES: Final = 24
ROW: Final = struct.Struct("<qiiq")

Row = tuple[int, int, int, int]
"""(physical offset, size, tag hash, store ms)"""


def columns(rows: bytes) -> tuple[list[int], list[int]]:
    """(physical offsets, sizes) of encoded rows: what a reader of records needs, without a tuple for each row."""
    longs, ints = array("q", rows), array("i", rows)
    if sys.byteorder == "big":
        longs.byteswap()
        ints.byteswap()
    return longs[:: ROW_BYTES // 8].tolist(), ints[2 :: ROW_BYTES // 4].tolist()


def fitting(sizes: list[int], max_bytes: int) -> int:
    """How many of the first records take at most `max_bytes`, but at least one."""
    left = max_bytes
    for at, size in enumerate(sizes):
        left -= size
        if left < 0 and at:
            return at
    return len(sizes)


def rows_within(rows: Sequence[Row], max_bytes: int) -> Sequence[Row]:
    """The longest prefix of `rows` whose records take at most `max_bytes`, but at least one row."""
    count = fitting([row[1] for row in rows], max_bytes)
    return rows if count == len(rows) else rows[:count]
