"""A leader that is parted from others, and that clients reach, does not hold up the group."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.partings import run


@pytest.mark.parametrize("seed", range(8))
def test_the_group_serves_within_ten_seconds(seed: int) -> None:
    partings = run(seed)
    assert partings.cluster.checkers.serving > 1, "another replica has led"
