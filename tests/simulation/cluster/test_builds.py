"""The compiled modules behave as the sources in whole clusters too: runs have equal digests with both."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SEEDS = ("9", "12")
"""Seeds in which both HTTP/2 engines write as many fragments: nghttp2's SETTINGS are shorter than h2's, and in seeds 7, 8
and 13 a fragment less moves the next draw of the simulated gateway. With h2 in both builds these are equal, too."""


def digests(pure: str) -> list[str]:
    """The first line says what was compiled."""
    command = [sys.executable, "-m", "tests.simulation.cluster.seeds", *SEEDS, "-d"]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "HEADGATE_PURE": pure}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert out.returncode == 0, out.stdout[-4000:] + out.stderr[-4000:]
    return out.stdout.splitlines()


def test_runs_are_equal_over_pure_and_compiled() -> None:
    compiled = digests("0")
    if "compiled" not in compiled[0] or compiled[0].startswith("# 0 "):
        pytest.skip(f"no compiled build to compare with ({compiled[0]}): run 'make compile'")
    pure = digests("1")
    assert pure[0] != compiled[0]
    assert len(pure) == 1 + int(SEEDS[1]) - int(SEEDS[0])
    assert pure[1:] == compiled[1:]
