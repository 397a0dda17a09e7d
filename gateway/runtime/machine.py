"""The machine: its memory, open files, and how long it was busy with the event loop."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Final

HOT_SHARE: Final = 0.4
"""Share of the memory up to which the newest part of the log counts as cached (RocketMQ's accessMessageInMemoryMaxRatio)."""

OPEN_FILES_MAX: Final = 1 << 30
"""Limit of open files of a process without one."""
SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")
"""Linux: nanoseconds in which this thread ran, nanoseconds in which it waited for a processor, time slices."""


def hot_bytes() -> int:
    """HOT_SHARE of the machine's memory."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * HOT_SHARE)


def open_files_max() -> int:
    """Files and sockets that this process may have open (RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else min(soft, OPEN_FILES_MAX)


def processor_ns() -> tuple[int, int]:
    """Nanoseconds in which the calling thread has run, and in which it has waited for a processor, since it began. Where the
    waiting is not counted, that is 0."""
    try:
        ran, waited, _ = SCHEDSTAT.read_bytes().split()
        return int(ran), int(waited)
    except (OSError, ValueError):
        return time.thread_time_ns(), 0
