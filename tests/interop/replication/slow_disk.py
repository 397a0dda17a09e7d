"""A disk that a test makes slow while a process runs: a library, preloaded, that delays fdatasync and fsync.

disk = SlowDisk(tmp_path)                     skips the test loudly where there is no C compiler
Node(..., environment=disk.environment)
disk.slow(300); disk.well()
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).with_suffix(".c")


class SlowDisk:
    """The disk of one process. The library is built once for each folder.

    environment   what the process has to be started with
    """

    def __init__(self, folder: Path) -> None:
        library = _library(folder)
        self._told = folder / "slow-disk"
        self.well()
        self.environment = {"LD_PRELOAD": str(library), "SLOW_DISK": str(self._told)}

    def slow(self, delay_ms: int) -> None:
        """From now on each sync takes so much longer."""
        fresh = self._told.with_suffix(".new")
        fresh.write_text(str(delay_ms))
        os.replace(fresh, self._told)

    def well(self) -> None:
        """From now on syncs take as long as they take."""
        self.slow(0)


def _library(folder: Path) -> Path:
    """The library, built in `folder` unless it is there. Skips the test where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc): the library that makes a disk slow cannot be built")
    folder.mkdir(parents=True, exist_ok=True)
    built = folder / "slow_disk.so"
    if not built.exists():
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", str(built), str(SOURCE), "-ldl"], check=True, capture_output=True
        )
    return built
