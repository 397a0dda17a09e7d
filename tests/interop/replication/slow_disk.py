"""A disk that a test makes slow while a process runs: a library, preloaded, that delays fdatasync and fsync, or writes too.

disk = SlowDisk(tmp_path)                     skips the test loudly where there is no C compiler
Node(..., environment=disk.environment)
disk.slow(300); disk.well()
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.interop.replication.preloaded import preloaded

SOURCE: Final = Path(__file__).with_suffix(".c")


class SlowDisk:
    """The disk of one process. The library is built once for each folder. `writes`: pwrite is delayed, too.

    environment   what the process has to be started with
    """

    def __init__(self, folder: Path, writes: bool = False) -> None:
        library = preloaded(folder, SOURCE)
        self._notified = folder / "slow-disk"
        self.well()
        self.environment = {"LD_PRELOAD": str(library), "SLOW_DISK": str(self._notified)}
        if writes:
            self.environment["SLOW_DISK_WRITES"] = "1"

    def slow(self, delay_ms: int) -> None:
        """From now on each sync takes so much longer."""
        fresh = self._notified.with_suffix(".new")
        fresh.write_text(str(delay_ms))
        os.replace(fresh, self._notified)

    def well(self) -> None:
        """From now on syncs take as long as they take."""
        self.slow(0)
