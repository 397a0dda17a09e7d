"""The compiled modules behave as the sources: twenty runs have equal digests with both."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SEEDS = ("20", "30")


def digests(environment: dict[str, str]) -> list[str]:
    command = [sys.executable, "-m", "tests.simulation.digests", *SEEDS]
    out = subprocess.run(
        command,
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert out.returncode == 0, out.stderr[-4000:]
    return out.stdout.splitlines()


def test_twenty_runs_are_equal_over_pure_and_compiled() -> None:
    compiled = digests({"HEADGATE_PURE": "0"})
    if "compiled" not in compiled[0] or compiled[0].startswith("# 0 "):
        pytest.skip(f"no compiled build to compare with ({compiled[0]}): run 'make compile'")
    pure = digests({"HEADGATE_PURE": "1"})
    assert pure[0] != compiled[0]
    assert len(pure) == 21
    assert pure[1:] == compiled[1:]


def test_a_run_does_not_depend_on_the_hash_seed() -> None:
    assert (
        digests({"PYTHONHASHSEED": "1", "HEADGATE_PURE": "1"})[1:] == digests({"PYTHONHASHSEED": "2", "HEADGATE_PURE": "1"})[1:]
    )
