"""The replicas of a store group are restarted one after the other while messages of all protocols are sent
through a gateway and to them. It needs SOAK in the environment: in `./test` the rolling upgrade restarts all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.interop.node import Node
from tests.interop.replication.all_senders import AllSenders
from tests.interop.replication.group import StoreGroupNodes
from tests.store.faults.soak import SOAK

LONGEST_S: Final = 60.0
"""Longest time without an acknowledgement of one sender, on a machine that has much else to do."""
pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not SOAK, reason="SOAK=1 runs it: a rolling upgrade restarts the same nodes"),
]


def test_all_replicas_are_restarted_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 3, controllers=1) as group:
        group.await_members(1, 2, 3)
        gateway = group.gateway(tmp_path / "gateway")
        with AllSenders([gateway], group.nodes) as senders:
            for node in _leader_last(group):
                senders.go_on()
                is_leader = node.serves()
                group.running.discard(node)
                assert node.stop() == 0
                assert not is_leader or "should lead" in node.text(), "it hands the leadership over"
                senders.go_on()
                group.start(node)
                group.await_members(1, 2, 3)
            senders.go_on()
        waits = senders.longest_s()
        print(f"\n{senders.acknowledged()} messages acknowledged; not acknowledged: {senders.refusals()}")
        print(*(f"longest wait: {wait:.2f} s, {name}" for name, wait in waits.items()), sep="\n")
        told = "".join(node.text() for node in group.nodes)
        assert "is below its full strength: not in sync are replicas" in told
        assert "is at its full strength: 3 replicas" in told
        assert "headgate_replica_lacking 0" in group.leader().admin("/metrics")
        assert senders.lost(group.leader()) == set()
        assert max(waits.values()) < LONGEST_S, waits


def _leader_last(group: StoreGroupNodes) -> list[Node]:
    leader = group.leader()
    return [*(node for node in group.nodes if node is not leader), leader]
