"""A leader leads on when all connections of the controller that leads break: they come back one by one, in any order."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.cluster import Cluster

BREAKS = 8
"""Times that they break in a run."""


def leading(cluster: Cluster) -> str:
    """Address of the controller that leads."""
    found = (each for each in cluster.controllers if each.requests is not None and each.requests.member is not None)
    return next(each.host for each in found if each.requests.member.leads)  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(3))
def test_no_other_replica_is_elected(seed: int) -> None:
    Cluster.made.clear()
    cluster = Cluster(seed)
    cluster.start()
    cluster.clock.run_until(lambda: all(each.is_whole() for each in cluster.groups), 20_000)
    before = cluster.checkers.group()
    for _ in range(BREAKS):
        cluster.net.reset(leading(cluster), 1.0)
        cluster.clock.run_for(3_000)
    after = cluster.checkers.group()
    assert before is not None
    assert after is not None
    assert (after.leader, after.leader_epoch, after.in_sync) == (before.leader, before.leader_epoch, before.in_sync)
    assert cluster.checkers.serving == 1
