"""Store groups as tests need them."""

from __future__ import annotations

from collections.abc import Iterable

from controller.groups.groups import StoreGroups
from domain.controller.change import AlterSet, ApplyId, ElectLeader, RegisterReplica
from domain.controller.group import ReplicaReport, SetMember, StoreGroup

NAME, CLUSTER = "broker-a", "main"


def incarnation(replica_id: int, life: int = 1) -> str:
    """The identity of a replica's log in one of its lives."""
    return f"log-{replica_id}-{life}"


def member(replica_id: int, life: int = 1) -> SetMember:
    """A replica as a member of the SyncStateSet."""
    return SetMember(replica_id, incarnation(replica_id, life))


def members(*ids: int) -> tuple[SetMember, ...]:
    """Members in their first lives."""
    return tuple(map(member, ids))


def says(replica_id: int, epoch: int = 1, position: int = 100, priority: int = 0, life: int = 1) -> ReplicaReport:
    """What a live replica says of itself."""
    return ReplicaReport(replica_id, incarnation(replica_id, life), epoch, position, priority)


def start(groups: StoreGroups, replica_id: int, life: int = 1, continues: str = "", learner: bool = False) -> None:
    """Register a replica that has an id."""
    change = RegisterReplica(
        NAME, CLUSTER, replica_id, f"h{replica_id}:10911", incarnation(replica_id, life), learner, continues=continues
    )
    assert groups.apply(change).refusal is None


def registered(replicas: int = 3) -> StoreGroups:
    """A group whose replicas are registered. It has had no election."""
    groups = StoreGroups()
    for number in range(1, replicas + 1):
        assert groups.apply(ApplyId(NAME, CLUSTER, number, f"node-{number}", f"h{number}:10911")).refusal is None
        start(groups, number)
    return groups


def led(in_sync: Iterable[int] = (1, 2), replicas: int = 3) -> StoreGroups:
    """A group that replica 1 leads, with this SyncStateSet. Leader epoch 1; set epoch 2, or 1 when the set is the leader."""
    groups = registered(replicas)
    assert groups.apply(ElectLeader(NAME, (says(1),), asker=1)).refusal is None
    if tuple(in_sync) != (1,):
        assert groups.apply(AlterSet(NAME, 1, 1, 1, members(*in_sync))).refusal is None
    return groups


def group_of(groups: StoreGroups) -> StoreGroup:
    """The group."""
    found = groups.group(NAME)
    assert found is not None
    return found
