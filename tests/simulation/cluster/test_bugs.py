"""Known bugs of clusters are put back, and each is found within the number of seeds that `bugs.py` states."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.bugs import BUGS


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_is_found(name: str) -> None:
    _, said = BUGS[name].find()
    assert said.startswith("HistoryError"), said
