"""Some runs have the digests that are kept; `make digests` compares all of them. It also says how they are written anew."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("tests.simulation.cluster.seeds", "4", "7"), ("tests.simulation.digests", "0", "3")], ids=["cluster", "node"]
)
def test_three_runs_have_the_digests_that_are_kept(words: tuple[str, ...]) -> None:
    """A difference is a change of behaviour: when it is meant, `python -m MODULE -w` writes the file of the module anew."""
    out = subprocess.run(
        [sys.executable, "-m", *words, "-c"], env=dict(os.environ), capture_output=True, text=True, timeout=300, check=False
    )
    assert out.returncode == 0, out.stdout[-4000:] + out.stderr[-4000:]
