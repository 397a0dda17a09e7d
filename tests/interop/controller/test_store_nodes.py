"""What a store node of Headgate asks of real controllers, and what an operator sees of it by `headgate cluster`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.controller.change import AlterSet, ApplyId, ElectLeader, GroupChange, RegisterReplica
from domain.controller.group import ReplicaReport, SetMember, StoreGroup
from domain.controller.replica_word import ReplicaWord
from gateway.client.link import Link
from gateway.cluster.operator.controllers import ClusterControllers
from protocols.remoting import codes
from protocols.remoting.controller import asking
from tests.interop.controller.controllers import Controllers, until
from tests.interop.warm import headgate

pytestmark = pytest.mark.interop
NAME, CLUSTER = "broker-a", "main"


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    with Controllers(tmp_path) as running:
        yield running


class Replica:
    """The heartbeats of one replica, to all controllers."""

    def __init__(self, controllers: Controllers, number: int) -> None:
        self.number = number
        self.address = controllers.addresses[number]  # somewhere that takes connections
        self.links = [Link(address, 5) for address in controllers.addresses]

    def beat(self, position: int) -> None:
        report = ReplicaReport(self.number, f"log-{self.number}", 0, position)
        for link in self.links:
            link.ask(
                [(codes.BROKER_HEARTBEAT, asking.heartbeat(CLUSTER, NAME, self.address, ReplicaWord(report), 20_000), b"")]
            )

    def die(self) -> None:
        for link in self.links:
            link.close()


def cluster(controllers: Controllers, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `headgate cluster` to its end."""
    return headgate("cluster", *words, "--controller", controllers.addresses[0])


def test_a_killed_leader_is_replaced_before_its_heartbeats_are_over(controllers: Controllers) -> None:
    asked = ClusterControllers(controllers.addresses[:1], None, None)

    def made(change: GroupChange) -> StoreGroup:
        answer = asked.change(change)
        assert answer.refusal is None
        assert answer.group is not None
        return answer.group

    replicas = [Replica(controllers, number) for number in (1, 2)]
    for each in replicas:
        made(ApplyId(NAME, CLUSTER, each.number, f"node-{each.number}", each.address))
        made(RegisterReplica(NAME, CLUSTER, each.number, each.address, f"log-{each.number}"))
        each.beat(1_000)
    group = made(ElectLeader(NAME, asker=1))
    members = (SetMember(1, "log-1"), SetMember(2, "log-2"))
    group = made(AlterSet(NAME, 1, group.leader_epoch, group.set_epoch, members))
    assert (group.leader, group.members, group.min_in_sync) == (1, members, 1)
    found = cluster(controllers, "status")
    assert (found.returncode, found.stdout.splitlines()[-1]) == (0, "all is well"), found
    moved = cluster(controllers, "move", NAME, "2")
    assert "replica 2 leads broker-a from epoch 2 on" in moved.stdout, moved
    assert cluster(controllers, "move", NAME, "1").returncode == 0
    began = time.monotonic()
    replicas[0].die()
    until(lambda: asked.group(NAME)[0].leader == 2, "the other one leads", 15)
    assert time.monotonic() - began < 15, "a heartbeat counts for 20 s: it is not its end that was waited for"
    told = json.loads(cluster(controllers, "status", "--json").stdout)
    assert told["groups"][0]["leaderEpoch"] == 4
    assert [each["heard"]["alive"] for each in told["groups"][0]["replicas"]] == [False, True]
    assert any("replica 1 is not in sync" in each for each in told["faults"])
    refused = cluster(controllers, "recover", NAME, "1", "--accept-loss", "--name", NAME)
    assert refused.returncode == 2
    assert "a member of the SyncStateSet is there" in refused.stderr
    asked.close()
