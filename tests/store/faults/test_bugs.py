"""The checker finds the bugs that the store once had: each is put back in a process of its own, and found within its seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.faults.bugs import BUGS
from tests.store.faults.run import check_checkpoints
from tests.store.faults.soak import SOAK
from tests.store.faults.work import busy, script

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_that_is_put_back_is_found(name: str) -> None:
    command = [sys.executable, "-m", "tests.simulation.kit.bugs", "tests.store.faults.bugs", name]
    environment = {**os.environ, "HEADGATE_PURE": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("seed", range(8 if SOAK else 1))
def test_a_power_failure_while_checkpoints_are_written(seed: int) -> None:
    for load in (busy, script):
        check_checkpoints(seed, load)
