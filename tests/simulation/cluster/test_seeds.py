"""Whole clusters under seeds: 30 of them here, a thousand with `make sim`. In a third of them operators are busy, too.

A run that fails prints its timeline. `python -m tests.simulation.cluster.seeds 17` runs a seed again.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.cluster.operators import OPERATED
from tests.simulation.cluster.scene import run

SEEDS = int(os.environ.get("CLUSTER_SEEDS", "30"))
BLOCK = 10
BLOCKS = range(SEEDS // BLOCK)
FIRST = [OPERATED + each // 3 * BLOCK if each % 3 == 2 else (each - each // 3) * BLOCK for each in BLOCKS]
"""The first seed of each block."""


@pytest.mark.parametrize("first", FIRST)
def test_nothing_is_lost_and_everything_goes_on(first: int) -> None:
    scenes = [run(seed) for seed in range(first, first + BLOCK)]
    assert sum(len(each.cluster.ledger.acknowledged) for each in scenes) > 40 * BLOCK
    assert sum(each.cluster.checkers.serving for each in scenes) > 2 * BLOCK, "leaders are lost, and followed by others"
    assert len({kind for each in scenes for kind in each.weather.counts}) > 10, "faults of all kinds"
    assert sum(each.load.deals.followed for each in scenes) > 2, "questions about half messages go on at the next leader"
    if first == 10:
        counted = [each for scene in scenes for each in scene.cluster.controllers]
        assert sum(each.passed_over for each in counted) > 0, "a slow replica is passed over, and comes back"


def test_a_seed_repeats_exactly() -> None:
    assert run(3).digest() == run(3).digest()
