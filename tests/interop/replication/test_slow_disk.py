"""The library that makes a disk slow does so, and is told while the process runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.interop.replication.slow_disk import SlowDisk

PROGRAM = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for _ in sys.stdin:
    began = time.monotonic()
    os.write(file, b"x"); os.fdatasync(file)
    print(time.monotonic() - began, flush=True)
"""


def test_syncs_take_as_long_as_the_test_says(tmp_path: Path) -> None:
    disk = SlowDisk(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "file")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **disk.environment},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None

    def sync_s() -> float:
        print(file=process.stdin, flush=True)
        return float(process.stdout.readline())  # type: ignore[union-attr]

    try:
        sync_s()
        disk.slow(1_500)
        assert sync_s() >= 1.5
        disk.well()
        assert sync_s() < 1.5
    finally:
        process.kill()
        process.communicate()
