"""One row of the queue index: where a message is, how long, its tag's hash, and when it was stored.

    physical offset 8 | size 4 | tag hash 4 (for parked messages: when it is due, within its bucket) | store ms 8
"""

from __future__ import annotations

import struct
from typing import Final

ROW_BYTES: Final = 24
ROW: Final = struct.Struct("<qiiq")

Row = tuple[int, int, int, int]
"""(physical offset, size, tag hash, store ms)"""
