"""How a store is replicated, as tools are told: codes 907 and 1007."""

from __future__ import annotations

import json

from domain.admin.replica import FollowerFound, QueryReplica, ReplicaFound
from protocols.remoting import codes
from protocols.remoting.tools.replicas import NO_END
from tests.protocols.remoting.frames import exchanged

ALONE = ReplicaFound(None, False, 0, True, "", 4096, 4096)
LEADER = ReplicaFound(
    None, True, 2, True, "", 5000, 4000, [(1, 0), (3, 1000)],
    [FollowerFound(1, "h1:10911", 4500, True), FollowerFound(4, "h4:10911", 200, False)],
)  # fmt: skip
FOLLOWER = ReplicaFound(None, True, 1, False, "h2:10914", 4500, 4000, [(1, 0), (3, 1000)])


def test_a_master_without_slaves() -> None:
    found = json.loads(exchanged(codes.GET_HA_STATUS, {}, QueryReplica, ALONE).body)
    assert (found["master"], found["masterCommitLogMaxOffset"], found["haConnectionInfo"]) == (True, 4096, [])


def test_a_leader_tells_of_those_that_follow_it() -> None:
    found = json.loads(exchanged(codes.GET_HA_STATUS, {}, QueryReplica, LEADER).body)
    assert (found["master"], found["masterCommitLogMaxOffset"], found["inSyncSlaveNums"]) == (True, 5000, 1)
    told = [(each["addr"], each["slaveAckOffset"], each["diff"], each["inSync"]) for each in found["haConnectionInfo"]]
    assert told == [("h1:10911", 4500, 500, True), ("h4:10911", 200, 4800, False)]


def test_a_follower_tells_of_its_leader() -> None:
    found = json.loads(exchanged(codes.GET_HA_STATUS, {}, QueryReplica, FOLLOWER).body)
    following = found["haClientRuntimeInfo"]
    assert not found["master"]
    assert (following["masterAddr"], following["maxOffset"], following["masterFlushOffset"]) == ("h2:10914", 4500, 4000)


def test_epochs_follow_each_other_and_the_newest_has_no_end() -> None:
    found = json.loads(exchanged(codes.GET_BROKER_EPOCHS, {}, QueryReplica, LEADER).body)
    assert (found["brokerId"], found["maxOffset"]) == (2, 5000)
    spans = [(each["epoch"], each["startOffset"], each["endOffset"]) for each in found["epochList"]]
    assert spans == [(1, 0, 1000), (3, 1000, NO_END)]


def test_a_log_that_was_never_led_has_no_epochs() -> None:
    empty = ReplicaFound(None, True, 1, False, "", 0, 0)
    assert json.loads(exchanged(codes.GET_BROKER_EPOCHS, {}, QueryReplica, empty).body)["epochList"] == []


def test_a_store_that_is_not_replicated_has_no_epochs() -> None:
    answer = exchanged(codes.GET_BROKER_EPOCHS, {}, QueryReplica, ALONE)
    assert answer.code == codes.NOT_SUPPORTED
    assert "no replicas" in answer.remark
