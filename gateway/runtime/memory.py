"""Memory of the machine."""

from __future__ import annotations

import os
from typing import Final

HOT_SHARE: Final = 0.4
"""Share of the memory up to which the newest part of the log counts as cached (RocketMQ's accessMessageInMemoryMaxRatio)."""


def hot_bytes() -> int:
    """HOT_SHARE of the machine's memory."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * HOT_SHARE)
