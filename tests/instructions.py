"""Counts instructions of Python's machine: a cost that no load of the machine changes, and that sees each round of a loop.

What C does inside one instruction counts once: sorting a list, or copying it. Compiled modules have no instructions. The
garbage of others is not collected meanwhile: its finalizers would count.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(act: Callable[[], object]) -> int:
    """Number of instructions that `act` takes, those of all functions that it calls included."""
    found = 0

    def in_frame(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal found
        if event == "opcode":
            found += 1
        return in_frame

    def entered(frame: FrameType, _event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return in_frame

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(entered)
    try:
        act()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return found
