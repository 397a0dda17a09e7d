"""Whole store groups under seeds, and known bugs that they find."""

from __future__ import annotations

import pytest

from tests.gateway.cluster.replica.bugs import BUGS
from tests.gateway.cluster.replica.world import run
from tests.store.faults.soak import SOAK

BLOCK = 20


@pytest.mark.parametrize("block", range(50 if SOAK else 2))
def test_nothing_acknowledged_is_lost_by_three_replicas(block: int) -> None:
    worlds = [run(seed) for seed in range(block * BLOCK, block * BLOCK + BLOCK)]
    assert sum(each.elections for each in worlds) > 40
    assert sum(len(each.acknowledged) for each in worlds) > 1_000


@pytest.mark.parametrize(("count", "runs"), [(2, 400 if SOAK else 20), (4, 200 if SOAK else 5), (5, 200 if SOAK else 5)])
def test_nothing_acknowledged_is_lost_by_other_numbers_of_replicas(count: int, runs: int) -> None:
    worlds = [run(seed, count=count) for seed in range(runs)]
    assert sum(each.elections for each in worlds) > runs
    assert sum(len(each.acknowledged) for each in worlds) > 20 * runs


def test_nothing_acknowledged_is_lost_by_replicas_that_come_back_over_slow_ways() -> None:
    worlds = [run(seed, far=True) for seed in range(200 if SOAK else 10)]
    assert sum(each.elections for each in worlds) > len(worlds)


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_is_found(name: str) -> None:
    _, said = BUGS[name].find()
    assert said.startswith("HistoryError"), said
