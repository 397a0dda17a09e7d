"""Connections to controllers break and come back, and nothing else happens: whoever leads leads on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.simulation.cluster.cluster import Cluster
from tests.simulation.kit.bugs import HistoryError

BREAKS: Final = 8
"""Times that they break in a run."""
REST_MS: Final = 3_000


def leading(cluster: Cluster) -> str:
    """Address of the controller that leads."""
    found = (each for each in cluster.controllers if each.requests is not None and each.requests.member is not None)
    return next(each.host for each in found if each.requests.member.leads)  # type: ignore[union-attr]


def run_controller(seed: int) -> Cluster:
    """All connections of the controller that leads break: they come back one by one, in any order. Raises HistoryError."""
    return _run(seed, lambda cluster: cluster.net.reset(leading(cluster), 1.0))


def run_leader(seed: int) -> Cluster:
    """The connections of the leader to all controllers break. Raises HistoryError."""

    def part(cluster: Cluster) -> None:
        leader = cluster.leader()
        assert leader is not None
        for each in cluster.controllers:
            cluster.net.reset(leader.host, 1.0, each.host)

    return _run(seed, part)


def _run(seed: int, part: Callable[[Cluster], None]) -> Cluster:
    Cluster.made.clear()
    cluster = Cluster(seed)
    cluster.start()
    cluster.clock.run_until(lambda: all(each.is_whole() for each in cluster.groups), 20_000)
    before = cluster.checkers.group()
    for _ in range(BREAKS):
        part(cluster)
        cluster.clock.run_for(REST_MS)
    after = cluster.checkers.group()
    assert before is not None
    assert after is not None
    if (after.leader, after.leader_epoch, after.in_sync) != (before.leader, before.leader_epoch, before.in_sync):
        raise HistoryError(f"connections to controllers broke, and replica {after.leader} leads in epoch {after.leader_epoch}")
    if cluster.checkers.serving != 1:
        raise HistoryError(f"{cluster.checkers.serving} leaderships have served")
    return cluster
