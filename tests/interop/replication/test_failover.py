"""Replicas of a store group are killed one after the other: nothing that was acknowledged is lost, and somebody soon leads."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes, post
from tests.interop.replication.test_losses import cluster
from tests.store.faults.soak import SOAK

pytestmark = pytest.mark.interop
LIVES: Final = 3 if SOAK else 2


def test_killed_leaders_of_three_replicas_are_replaced_and_come_back(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 3, controllers=3) as group:
        group.await_members(1, 2, 3)
        sent: list[str] = []
        for life in range(LIVES):
            for number in range(50):
                sent.append(f"{life} {number}")
                group.send("orders", sent[-1])
            old = group.leader()
            group.kill(old)
            sent.append(f"{life} after")
            assert group.send("orders", sent[-1]) < 20
            assert sorted(set(group.bodies("orders"))) == sorted(sent)
            group.start(old)
            group.await_members(1, 2, 3)


def test_of_two_replicas_whoever_was_killed_catches_up_and_serves_all_of_it(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        leader = group.leader()
        follower = next(node for node in group.nodes if node is not leader)
        group.send("orders", "with both")
        group.kill(follower)
        alone = [f"alone {number}" for number in range(30)]
        for body in alone:
            group.send("orders", body)
        group.start(follower)
        group.await_members(1, 2)
        group.kill(leader)
        assert set(group.bodies("orders")) == {"with both", *alone}
        assert group.send("orders", "at the other one") < 20
        group.start(leader)
        group.await_members(1, 2)
        group.kill(follower)
        assert set(group.bodies("orders")) == {"with both", *alone, "at the other one"}


def test_a_single_node_becomes_a_group_and_one_with_a_log_of_its_own_does_not_give_it_up(tmp_path: Path) -> None:
    before = [f"before {number}" for number in range(30)]
    with Node(tmp_path / "replica-1", "--roles", "gateway,store", verb="run") as alone:
        for body in before:
            assert post(alone, "orders", body)
    with Node(tmp_path / "replica-3", "--roles", "gateway,store", verb="run") as other:
        assert post(other, "orders", "only here")
    with StoreGroupNodes(tmp_path, 3, late=1) as group:
        group.await_members(1, 2)
        first, _, third = group.nodes
        assert group.leader() is first
        group.send("orders", "as a group")
        group.start(third)
        until(lambda: "was never replicated" in third.text(), "the node says why it ends")
        assert (third.data / "log").exists()
        # The third one is registered, so that two are wanted by default; one alone would confirm nothing, and not serve.
        assert cluster(group.controllers, "set", "broker-a", "--min-in-sync", "1")[0] == 0
        group.kill(first)
        assert set(group.bodies("orders")) == {*before, "as a group"}
