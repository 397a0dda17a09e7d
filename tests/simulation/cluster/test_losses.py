"""Clusters of which names, numbers and epochs prove nothing: forgotten, older and foreign controllers, copied directories; and
those that an operator has go on with fewer records."""

from __future__ import annotations

import os

import pytest

from tests.simulation.cluster import promotions
from tests.simulation.cluster.loss_bugs import BUGS
from tests.simulation.cluster.losses import run, run_older_set

SEEDS = int(os.environ.get("CLUSTER_SEEDS", "24"))
KINDS = 4
BLOCK = 8


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_nothing_acknowledged_goes_and_no_log_is_changed_by_a_stranger(first: int) -> None:
    scenes = [run(seed) for seed in range(first, first + BLOCK)]
    assert len({each.kind for each in scenes}) == KINDS
    assert sum(len(each.sent) for each in scenes) > 8 * BLOCK


@pytest.mark.parametrize("seed", range(SEEDS // KINDS))
def test_nobody_is_elected_by_a_set_that_is_older_than_what_replicas_have_seen(seed: int) -> None:
    assert run_older_set(seed).sent


@pytest.mark.parametrize("first", range(0, SEEDS // 3, BLOCK))
def test_a_remote_replica_that_lacks_records_is_promoted_and_loses_no_more_than_was_said(first: int) -> None:
    scenes = [promotions.run(seed) for seed in range(first, first + BLOCK)]
    assert sum(each.lost for each in scenes) > BLOCK
    assert all(each.cluster.checkers.given_up <= each.declared for each in scenes)


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_is_found(name: str) -> None:
    _, said = BUGS[name].find()
    assert said.startswith("HistoryError"), said
