"""The admin port of a replica that follows: it lives, it is not ready, and its metrics say how far it is."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
from contextlib import suppress
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes

pytestmark = pytest.mark.interop


def figures(node: Node) -> dict[str, float]:
    """The metrics of a node that have no labels."""
    return {name: float(value) for name, value in re.findall(r"^headgate_(\w+) (\S+)$", node.admin("/metrics"), re.MULTILINE)}


def at_any_time(node: Node) -> dict[str, float]:
    """The same; none while a node begins another life, and has no admin port for a moment."""
    with suppress(OSError):
        return figures(node)
    return {}


def test_a_follower_says_that_it_lives_and_how_far_it_is(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2, controllers=1) as group:
        group.await_members(1, 2)
        leader = group.leader()
        follower = next(node for node in group.nodes if node is not leader)
        for number in range(5):
            group.send("orders", f"message {number}")
        assert json.loads(follower.admin("/healthz"))["status"] == "following"
        until(lambda: "this replica follows replica" in _not_ready(follower), "it says what it does")
        until(lambda: _is_near(figures(follower), figures(leader)), "the follower is where its leader is")
        until(lambda: figures(follower).get("replica_in_sync") == 1, "the controllers have told it that it is in sync")
        found = figures(follower)
        assert (found["replica_leads"], found["replica_follows"], found["replica_in_sync"]) == (0, 1, 1)
        assert (found["replica_members"], found["replica_learner"], found["replica_lag_bytes"]) == (2, 0, 0)
        assert found["replica_written_bytes"] >= found["replica_synced_bytes"] >= found["replica_confirmed_bytes"] > 0
        assert found["replica_heard_age_seconds"] < 60
        assert found["store_log_end"] == found["replica_applied_bytes"]
        until(lambda: figures(follower)["replica_has_room"] == 1, "it has looked whether there is room")

        leader.signal(signal.SIGSTOP)  # its connections stay, and say nothing
        try:
            until(lambda: at_any_time(follower).get("replica_leads") == 1, "the follower leads instead")
        finally:
            leader.signal(signal.SIGCONT)
        assert figures(follower)["replica_follows"] == 0
        until(lambda: at_any_time(leader).get("replica_follows") == 1, "who led before follows")


def _not_ready(node: Node) -> str:
    """The first reason of /readyz."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        node.admin("/readyz")
    assert refused.value.code == 503
    return str(json.loads(refused.value.read())["reasons"][0])


def _is_near(of_follower: dict[str, float], of_leader: dict[str, float]) -> bool:
    return of_follower.get("replica_applied_bytes", 0) == of_leader["replica_confirmed_bytes"]
