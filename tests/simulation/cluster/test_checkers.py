"""The checkers of clusters know what they judge by: each test is a seed at which they were wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from domain.replication.message import Era
from tests.simulation.cluster.checkers import applied_in
from tests.simulation.cluster.cluster import Cluster


def test_a_replica_whose_process_has_ended_is_known_whether_anybody_asked_before_or_not() -> None:
    """Seed 925 of 83decab1: the only member of a SyncStateSet lost its log, and nobody knew that it was a member."""
    Cluster.made.clear()
    cluster = Cluster(0)
    cluster.start()
    cluster.clock.run_for(3_000)
    [store, *_] = cluster.stores
    assert store.life is not None
    own = store.life.own
    store.end("killed")
    assert own > 0
    assert (store.member, store.last_member[0]) == ((0, ""), own)


def test_what_a_follower_has_applied_counts_as_soon_as_it_has_bytes_of_the_epoch() -> None:
    """Seed 3585 of 71f2ff62: a learner that its leader has not taken yet begins anew once it has connected."""
    follower = SimpleNamespace(applied=10, eras=lambda: [Era(1, 0), Era(5, 8)])
    node = cast(Any, SimpleNamespace(follower=follower, led=None, life=SimpleNamespace(ended=False)))
    assert (applied_in(5, node), applied_in(6, node)) == (10, 0)
    node.life.ended = True
    assert applied_in(5, node) == 0
