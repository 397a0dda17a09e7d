"""Known bugs of clusters are put back, and each is found within the number of seeds that `bugs.py` states."""

from __future__ import annotations

import pytest

from tests.simulation.bug import first_seed
from tests.simulation.cluster.bugs import BUGS
from tests.simulation.cluster.scene import run


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_is_found(name: str) -> None:
    seed, said = first_seed(BUGS[name], run)
    assert seed >= 0, f"not found within {BUGS[name].seeds} seeds: {BUGS[name].about}"
    assert said.startswith("HistoryError"), said
