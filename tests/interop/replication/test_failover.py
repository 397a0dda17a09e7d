"""Replicas of a store group are killed one after the other: nothing that was acknowledged is lost, and somebody soon leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes, post

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("count", [2, 3])
def test_a_killed_leader_is_replaced_and_comes_back(count: int, tmp_path: Path) -> None:
    everybody = list(range(1, count + 1))
    with StoreGroupNodes(tmp_path, count) as group:
        group.await_members(*everybody)
        sent: list[str] = []
        for life in range(3):
            for number in range(50):
                sent.append(f"{life} {number}")
                group.send("orders", sent[-1])
            old = group.leader()
            group.kill(old)
            sent.append(f"{life} after")
            took_s = group.send("orders", sent[-1])
            assert took_s < 20
            found = group.bodies("orders")
            assert sorted(set(found)) == sorted(sent)
            group.start(old)
            group.await_members(*everybody)


def test_a_follower_that_was_killed_catches_up_and_serves_all_of_it(tmp_path: Path) -> None:
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


def test_a_single_node_becomes_a_group_and_keeps_what_it_had(tmp_path: Path) -> None:
    alone = Node(tmp_path / "replica-1", "--roles", "gateway,store", verb="run")
    alone.start()
    before = [f"before {number}" for number in range(30)]
    for body in before:
        assert post(alone, "orders", body)
    alone.stop()
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        group.send("orders", "as a group")
        first = group.leader()
        assert first is group.nodes[0]
        group.kill(first)
        assert set(group.bodies("orders")) == {*before, "as a group"}


def test_a_node_with_a_log_of_its_own_does_not_give_it_up(tmp_path: Path) -> None:
    other = Node(tmp_path / "replica-3", "--roles", "gateway,store", verb="run")
    other.start()
    assert post(other, "orders", "only here")
    other.stop()
    with StoreGroupNodes(tmp_path, 3, late=1) as group:
        group.await_members(1, 2)
        group.start(group.nodes[2])
        until(lambda: "was never replicated" in group.nodes[2].text(), "the node says why it ends")
        assert (tmp_path / "replica-3" / "data" / "log").exists()
