"""The checker finds the bugs that the store once had: each is put back in a process of its own, and found within its seeds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.faults.bugs import BUGS
from tests.store.faults.run import check_checkpoints
from tests.store.faults.soak import SOAK
from tests.store.faults.work import busy, script

ROOT = Path(__file__).resolve().parents[3]
ROW = re.compile(r"^\| `([\w-]+)` \| ([^|]+) \| (\d+) \| `([^`]+)` \|$", re.MULTILINE)


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_that_is_put_back_is_found(name: str) -> None:
    command = [sys.executable, "-m", "tests.store.faults.bugs", name]
    environment = {**os.environ, "HEADGATE_PURE": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=True)
    seed, _, said = run.stdout.partition(" ")
    assert 0 <= int(seed) < BUGS[name].seeds, f"not found within {BUGS[name].seeds} seeds"
    assert said.strip()


def test_the_page_lists_the_bugs() -> None:
    rows = ROW.findall((Path(__file__).parent / "README.md").read_text("utf-8"))
    assert [(name, what, int(seeds)) for name, what, seeds, _ in rows] == [
        (name, bug.what, bug.seeds) for name, bug in BUGS.items()
    ]


@pytest.mark.parametrize("seed", range(8 if SOAK else 1))
def test_a_power_failure_while_checkpoints_are_written(seed: int) -> None:
    for load in (busy, script):
        check_checkpoints(seed, load)
