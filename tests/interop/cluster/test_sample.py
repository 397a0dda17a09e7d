"""A sample of the other tests over three gateways and a balancer (TEST_GATEWAYS); `make soak` runs all of them so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.cluster.spread import ROOT, VARIABLE

pytestmark = pytest.mark.interop
SAMPLE = "tests/interop/test_one_log.py"


def test_over_three_gateways_all_is_as_at_one_node(tmp_path: Path) -> None:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'pytest'}", SAMPLE]
    done = subprocess.run(
        command, cwd=ROOT, env={**alone, VARIABLE: "3"}, capture_output=True, text=True, timeout=900, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8_000:]
