"""Libraries that are loaded before libc in the processes of tests, so that a disk or a clock is another one there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def preloaded(folder: Path, source: Path) -> Path:
    """The library of a C file, built in `folder` unless it is there. Skips the test loudly where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip(f"no C compiler (cc): {source.name} cannot be built")
    folder.mkdir(parents=True, exist_ok=True)
    built = (folder / source.name).with_suffix(".so")
    if not built.exists():
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", str(built), str(source), "-ldl"], check=True, capture_output=True
        )
    return built
