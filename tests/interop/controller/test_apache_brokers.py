"""Unmodified brokers of Apache RocketMQ 5.5 in controller mode, with controllers of Headgate in place of Apache's."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gateway.client.client import Client
from tests.interop.controller.controllers import Controllers, until
from tests.interop.replication.test_mqadmin import id_of
from tests.interop.rocketmq.controllers import GROUPS, ControllerCluster
from tests.store.faults.soak import SOAK

pytestmark = [pytest.mark.interop, pytest.mark.skipif(not SOAK, reason="five of Apache's servers: make soak runs it")]


@pytest.fixture(scope="module")
def controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    with Controllers(tmp_path_factory.mktemp("own")) as running:
        yield running


@pytest.fixture(scope="module")
def apache(controllers: Controllers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerCluster]:
    with ControllerCluster(tmp_path_factory.mktemp("apache"), controllers.addresses) as running:
        yield running


def test_brokers_register_join_and_are_elected_after_kills_of_masters_and_controllers(
    apache: ControllerCluster, controllers: Controllers
) -> None:
    """The cluster has started, so each group has a master and two brokers in its SyncStateSet."""
    assert {name: _in_sync(apache, name) for name in GROUPS} == dict.fromkeys(GROUPS, 2)
    apache.make_topic("kept")
    with Client(apache.nameserver.address) as client:
        for number in range(20):
            client.send("kept", b"%d" % number)
    first = apache.kill_master("broker-a")
    apache.until_elected("broker-a", first)
    first.spawn()
    first.ready()
    apache.until_in_sync()
    assert _stored(apache, "kept") == 20
    leader = controllers.leader()
    leader.kill()
    second = apache.kill_master("broker-b")
    apache.until_elected("broker-b", second)
    leader.start()
    second.spawn()
    second.ready()
    apache.until_in_sync()
    assert _stored(apache, "kept") == 20


def _stored(apache: ControllerCluster, topic: str) -> int:
    """Messages of a topic at the masters that there are now."""
    with Client(apache.nameserver.address) as client:
        return sum(edges.after - edges.first for edges in client.bounds(client.route(topic).queues).values())


def test_mqadmin_shows_and_changes_what_the_controllers_decide(apache: ControllerCluster, controllers: Controllers) -> None:
    apache.until_in_sync()
    asked = controllers.addresses[0]
    shown = apache.mqadmin("getControllerMetaData", "-a", asked)
    leader = controllers.address_of(controllers.leader())
    assert f"#ControllerLeaderAddress\t{leader}" in shown
    assert all(address in shown for address in controllers.addresses)
    master = apache.brokers["broker-a"]
    sets = apache.mqadmin("getSyncStateSet", "-a", asked, "-b", "broker-a")
    assert f"#MasterAddr\t{master.address}" in sets
    assert sets.count("InSyncReplica:") == 2
    other = next(each for each in apache.members["broker-a"] if each is not master)
    number = id_of(sets, other.address)
    elected = apache.mqadmin("electMaster", "-a", asked, "-b", str(number), "-bn", "broker-a", "-c", "DefaultCluster")
    assert other.address in elected
    apache.until_in_sync()
    assert apache.brokers["broker-a"] is other
    assert "notifyBrokerRoleChanged=true" in _spaceless(apache.mqadmin("getControllerConfig", "-a", leader))
    changed = apache.mqadmin("updateControllerConfig", "-a", leader, "-k", "notifyBrokerRoleChanged", "-v", "false")
    assert "success" in changed
    assert "notifyBrokerRoleChanged=false" in _spaceless(apache.mqadmin("getControllerConfig", "-a", leader))
    apache.mqadmin("updateControllerConfig", "-a", leader, "-k", "notifyBrokerRoleChanged", "-v", "true")
    refused = apache.mqadmin("cleanBrokerMetadata", "-a", asked, "-bn", "broker-b", "-b", "1;2", "-c", "DefaultCluster")
    assert "success" not in refused.lower()
    gone = apache.members["broker-b"][0 if apache.brokers["broker-b"] is apache.members["broker-b"][1] else 1]
    gone.kill()
    sets = apache.mqadmin("getSyncStateSet", "-a", asked, "-b", "broker-b")
    number = id_of(sets, gone.address)
    until(lambda: _in_sync(apache, "broker-b") == 1, "the dead broker is in the SyncStateSet no more", 180)
    cleaned = apache.mqadmin("cleanBrokerMetadata", "-a", asked, "-bn", "broker-b", "-b", str(number), "-c", "DefaultCluster")
    assert "success" in cleaned, cleaned
    assert gone.address not in apache.mqadmin("getSyncStateSet", "-a", asked, "-b", "broker-b")


def _in_sync(apache: ControllerCluster, group: str) -> int:
    return len(json.loads(apache.view().splitlines()[1])["replicasInfoTable"][group]["inSyncReplicas"])


def _spaceless(text: str) -> str:
    return text.replace(" ", "").replace("\t", "")
