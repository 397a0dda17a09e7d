"""A store group of the version before is upgraded under load, node by node. Who leads is restarted too, and hands over.

A replica of this version works under controllers of the version before, a controller goes back in between, each version leads
followers of the other one, and a gateway of each is before stores of both.

With SOAK in the environment nodes also go back to the version before in between.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from domain.controller.change import ElectLeader
from gateway.cluster.operator.controllers import ClusterControllers
from tests.interop.controller.controllers import until
from tests.interop.node import ROOT, Node
from tests.interop.replication.all_senders import AllSenders
from tests.interop.replication.group import CONTROLLERS, StoreGroupNodes
from tests.interop.replication.versions import of_this_version, of_version, tree_of
from tests.store.faults.soak import SOAK

BEFORE: Final = "44998bdc"
"""The last commit of the version before: it has store groups."""
LONGEST_S: Final = 60.0
"""Longest time without an acknowledgement of one sender, on a machine that has much else to do."""
pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


def test_a_store_group_of_the_version_before_is_upgraded_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    before = tree_of(BEFORE, tmp_path)
    group = StoreGroupNodes(tmp_path, 3, controllers=CONTROLLERS)
    controllers = group.controllers.nodes
    of_version(before, [*group.nodes, *controllers])
    with group:
        group.await_members(1, 2, 3)
        old_gateway = _gateway(group, tmp_path / "old-gateway", before)
        new_gateway = _gateway(group, tmp_path / "new-gateway", ROOT)
        with AllSenders([old_gateway, new_gateway], group.nodes) as senders:
            leader = group.leader()
            first, second = (node for node in group.nodes if node is not leader)
            _restart(group, first, ROOT, senders)  # leader and controllers are of the version before, a follower is of this one
            for controller in controllers:
                for root in (ROOT, before, ROOT) if controller is controllers[0] else (ROOT,):
                    of_version(root, [controller])
                    controller.restart()  # the first one goes back in between: what it writes, the others of before read
                    group.controllers.leader()
                    senders.go_on()
            _move(group, first)
            senders.go_on()  # the leader is of this version, both followers of the one before
            if SOAK:
                _restart(group, second, before, senders)
                _restart(group, first, before, senders)  # a downgrade, of a replica that has led
                assert not first.serves()
                _restart(group, first, ROOT, senders)
                _move(group, first)
            for node in (second, leader, first):
                _restart(group, node, ROOT, senders)
            assert "this node stops: replica" in first.text(), "it hands the leadership over"
            of_this_version([old_gateway])
            old_gateway.restart()
            senders.go_on()
        waits = senders.longest_s()
        print(f"\n{senders.acknowledged()} messages acknowledged; not acknowledged: {senders.refusals()}")
        print(*(f"longest wait: {wait:.2f} s, {name}" for name, wait in waits.items()), sep="\n")
        assert senders.lost(group.leader()) == set()
        assert max(waits.values()) < LONGEST_S, waits
        for node in (*group.nodes, *controllers, *group.gateways):
            assert "Traceback" not in node.text()
        told = "".join(node.text() for node in group.nodes)
        assert "is below its full strength: not in sync are replicas" in told
        assert "is at its full strength: 3 replicas" in told
        assert "headgate_replica_lacking 0" in group.leader().admin("/metrics")


def _gateway(group: StoreGroupNodes, folder: Path, root: Path) -> Node:
    stores = ",".join(f"127.0.0.1:{node.port('remoting')}" for node in group.nodes)
    gateway = Node(folder, "--roles", "gateway", "--store", stores, verb="run")
    of_version(root, [gateway])
    group.gateways.append(gateway)
    return gateway.start()


def _restart(group: StoreGroupNodes, node: Node, root: Path, senders: AllSenders) -> None:
    """Stop a replica, and start it with another version; messages are taken all the while, and then it has all of them."""
    group.running.discard(node)
    assert node.stop() == 0
    of_version(root, [node])
    group.start(node)
    group.await_members(1, 2, 3)
    senders.go_on()
    group.await_members(1, 2, 3)


def _move(group: StoreGroupNodes, node: Node) -> None:
    """Have a replica lead."""
    controllers = ClusterControllers(group.controllers.addresses, None, None)
    address = f"127.0.0.1:{node.port('replication')}"
    try:
        found = controllers.group("broker-a")[0]
        number = next(each.id for each in found.replicas if each.address == address)
        answer = controllers.change(ElectLeader("broker-a", designated=number))
        assert answer.refusal is None, answer
    finally:
        controllers.close()
    until(node.serves, "the replica leads that should")
