"""The replicas of a store group are restarted one after the other while messages are sent through a gateway and to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.load import TOPIC, Load

pytestmark = pytest.mark.interop


def test_all_replicas_are_restarted_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 3, controllers=1) as group:
        group.await_members(1, 2, 3)
        gateway = group.gateway(tmp_path / "gateway")
        loads = [Load(gateway, name="gateway "), Load(*group.nodes, name="replicas ")]
        try:
            for node in _leader_last(group):
                _goes_on(loads)
                is_leader = group.leads(node)
                group.running.discard(node)
                assert node.stop() == 0
                assert not is_leader or "should lead" in node.text(), "it hands the leadership over"
                _goes_on(loads)
                group.start(node)
                group.await_members(1, 2, 3)
            _goes_on(loads)
        finally:
            for load in loads:
                load.end()
        print(f"\nlongest wait of a message: by a gateway {loads[0].longest_s:.2f} s, by replicas {loads[1].longest_s:.2f} s")
        told = "".join(node.text() for node in group.nodes)
        assert "is below its full strength: not in sync are replicas" in told
        assert "is at its full strength: 3 replicas" in told
        assert "headgate_replica_lacking 0" in group.leader().admin("/metrics")
        found = set(group.bodies(TOPIC))
        for load in loads:
            assert set(load.acknowledged) <= found


def _leader_last(group: StoreGroupNodes) -> list[Node]:
    leader = group.leader()
    return [*(node for node in group.nodes if node is not leader), leader]


def _goes_on(loads: list[Load]) -> None:
    before = [len(each.acknowledged) for each in loads]
    until(
        lambda: all(len(each.acknowledged) > count + 5 for each, count in zip(loads, before, strict=True)), "messages are taken"
    )
