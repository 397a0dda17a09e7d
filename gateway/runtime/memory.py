"""How much memory the machine has."""

from __future__ import annotations

import os
from typing import Final

HOT_SHARE: Final = 0.4
"""The newest part of the log that counts as in memory, of all there is (RocketMQ's accessMessageInMemoryMaxRatio)."""


def hot_bytes() -> int:
    """HOT_SHARE of the machine's memory."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * HOT_SHARE)
