"""One row of the queue index: where a message is, how long, its tag's hash, and when it was stored.

physical offset 8 | size 4 | tag hash 4 (for parked messages: when it is due, within its bucket) | store ms 8
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
    """The first rows that fit into `max_bytes`, always one."""
    if len(rows) * 1_024 <= max_bytes and all(row[1] <= 1_024 for row in rows):
        return rows
    size = 0
    for at, row in enumerate(rows):
        size += row[1]
        if size > max_bytes and at:
            return rows[:at]
    return rows
