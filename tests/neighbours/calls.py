"""Counts function calls, of Python and of C: by a profile function in C, which costs a tenth of one in Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol

from tests.interop.workshop import made

SOURCE: Final = Path(__file__).with_name("calls.c")


class Number(Protocol):
    """Something with a number that is read without a call."""

    value: int


class CallCounter:
    """Counts in Python, where there is no compiler. `calls`: how many there were since it was set to 0."""

    def __init__(self) -> None:
        self.calls: Number = ctypes.c_long(0)

    def begin(self) -> None:
        """Count from now on."""
        sys.setprofile(self._count)

    def end(self) -> None:
        """Count no more."""
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.calls.value += 1


class CompiledCounter(CallCounter):
    """Counts in C, for the whole process."""

    def __init__(self, library: Path) -> None:
        loaded = ctypes.PyDLL(str(library))
        self.calls = ctypes.c_long.in_dll(loaded, "calls")
        self._count_in_c = ctypes.cast(loaded.count, ctypes.c_void_p)
        self._set = ctypes.pythonapi.PyEval_SetProfile
        self._set.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._set.restype = None

    def begin(self) -> None:
        self._set(self._count_in_c, None)

    def end(self) -> None:
        self._set(None, None)


def counter() -> CallCounter:
    """The fastest that there is."""
    compiler = shutil.which("cc")
    if compiler is None:
        return CallCounter()

    def make(folder: Path) -> None:
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(folder / "calls.so"), str(SOURCE)], check=True)

    return CompiledCounter(made("calls", [SOURCE], make) / "calls.so")
