"""One row of the queue index: position, size, tag hash and store time of a message.

physical offset 8 | size 4 | tag hash 4 (for timers: milliseconds within the bucket) | store ms 8
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

ROW_BYTES: Final = 24
ROW: Final = struct.Struct("<qiiq")

Row = tuple[int, int, int, int]
"""(physical offset, size, tag hash, store ms)"""


def rows_within(rows: Sequence[Row], max_bytes: int) -> Sequence[Row]:
    """The longest prefix of `rows` whose records take at most `max_bytes`, but at least one row."""
    if len(rows) * 1_024 <= max_bytes and all(row[1] <= 1_024 for row in rows):
        return rows
    size = 0
    for at, row in enumerate(rows):
        size += row[1]
        if size > max_bytes and at:
            return rows[:at]
    return rows
