"""mqadmin of RocketMQ 5.5, unmodified, before replicas and controllers of Headgate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient
from tests.interop.replication.group import StoreGroupNodes

pytestmark = pytest.mark.interop


def address(node: Node, port: str) -> str:
    """host:port of one listener."""
    return f"127.0.0.1:{node.port(port)}"


def epochs(said: str) -> list[int]:
    """The epochs in what getBrokerEpoch prints of one broker."""
    return [int(each) for each in re.findall(r"epoch=(\d+)", said)]


def id_of(sets: str, where: str) -> int:
    """The id of the replica at an address, as getSyncStateSet prints it."""
    found = re.search(rf"brokerId=(\d+), brokerAddress='{re.escape(where)}'", sets)
    assert found is not None, sets
    return int(found[1])


def test_mqadmin_shows_moves_and_cleans_a_store_group(java: JavaClient, tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2, controllers=3) as group:
        group.await_members(1, 2)
        group.send("orders", "before")
        leader = group.leader()
        other = next(node for node in group.nodes if node is not leader)
        names, broker, asked = address(leader, "nameserver"), address(leader, "remoting"), group.controllers.addresses[0]

        listed = java.admin("clusterList", "-n", names)
        assert broker in listed, listed
        assert "putTps" in java.admin("brokerStatus", "-b", broker, "-n", names)
        status = java.admin("haStatus", "-b", broker, "-n", names)
        assert re.search(r"#SlaveNum\s+1\n", status), status
        assert re.search(r"#InSyncSlaveNum\s+1\n", status), status
        before = java.admin("getBrokerEpoch", "-b", "broker-a", "-n", names)
        assert "#clusterName\tDefaultCluster" in before, before
        assert epochs(before), before

        sets = java.admin("getSyncStateSet", "-a", asked, "-b", "broker-a")
        assert sets.count("InSyncReplica:") == 2, sets
        assert f"#MasterAddr\t{address(leader, 'replication')}" in sets
        assert sets == java.admin("getSyncStateSet", "-a", asked, "-c", "DefaultCluster", "-n", names)
        controller = group.controllers.address_of(group.controllers.leader())
        assert f"#ControllerLeaderAddress\t{controller}" in java.admin("getControllerMetaData", "-a", asked)
        key = "notifyBrokerRoleChanged"
        assert key in java.admin("getControllerConfig", "-a", controller)
        assert "success" in java.admin("updateControllerConfig", "-a", controller, "-k", key, "-v", "true")

        number = id_of(sets, address(other, "replication"))
        elected = java.admin("electMaster", "-a", asked, "-b", str(number), "-bn", "broker-a", "-c", "DefaultCluster")
        assert address(other, "replication") in elected, elected
        until(other.serves, "who was elected leads")
        group.await_members(1, 2)
        after = java.admin("getBrokerEpoch", "-b", "broker-a", "-n", address(other, "nameserver"))
        assert max(epochs(after)) > max(epochs(before))

        gone = str(id_of(sets, address(leader, "replication")))
        cleaning = ("cleanBrokerMetadata", "-a", asked, "-bn", "broker-a", "-b", gone, "-c", "DefaultCluster")
        assert "success" not in java.admin(*cleaning).lower(), "it lives"
        group.kill(leader)
        group.await_members(number)
        assert "success" in java.admin(*cleaning)
        left = java.admin("getSyncStateSet", "-a", asked, "-b", "broker-a")
        assert address(leader, "replication") not in left
        assert group.bodies("orders") == ["before"]
