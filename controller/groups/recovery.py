"""Decisions of an operator about a store group: that no member of the SyncStateSet returns, or with whose log it begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.groups.decision import Decision, named
from controller.groups.election import electorate
from domain.controller.answer import GroupRefusal
from domain.controller.change import FoundGroup, PromoteLearner, RecoverGroup
from domain.controller.group import EPOCH_SAID_MAX, ReplicaReport, StoreGroup


def recover(group: StoreGroup, change: RecoverGroup | PromoteLearner) -> Decision:
    """Make one replica the only member and the leader. Refused while an election that loses nothing has a winner."""
    refusal = _refused(group, change)
    if refusal is not None:
        return Decision(group, refusal)
    replicas = tuple(replace(each, learner=False) if each.id == change.replica else each for each in group.replicas)
    return _alone(replace(group, replicas=replicas), change.replica, change.live)


def found(group: StoreGroup, change: FoundGroup) -> Decision:
    """Let a group go on with the log of one replica. Refused while the newest election is known."""
    known = bool(group.members) and not (change.fresh and group.lacks_election(change.live))
    refusal = GroupRefusal.HAS_MEMBERS if known else _unfit(group, change)
    if refusal is not None:
        return Decision(group, refusal)
    ruling = _alone(group, change.replica, change.live)
    assert ruling.group is not None
    return Decision(named(ruling.group, change.replica, change.fresh))


def _alone(group: StoreGroup, replica: int, live: Iterable[ReplicaReport]) -> Decision:
    """The group with a replica as its leader and its only member, in an epoch that no log has yet."""
    winner = group.replica(replica)
    assert winner is not None
    said = [each.epoch for each in group.replicas] + [each.epoch for each in live]
    epoch = max(group.leader_epoch, *(each for each in said if each <= EPOCH_SAID_MAX)) + 1
    return Decision(
        replace(group, leader=winner.id, leader_epoch=epoch, members=(winner.member,), set_epoch=group.set_epoch + 1)
    )


def _refused(group: StoreGroup, change: RecoverGroup | PromoteLearner) -> GroupRefusal | None:
    if change.typed != group.name:
        return GroupRefusal.NOT_TYPED
    if change.set_epoch != group.set_epoch:
        return GroupRefusal.OLD_SET_EPOCH
    if not group.members or electorate(group, change.live):
        return GroupRefusal.MEMBER_COMES_BACK
    return _unfit(group, change)


def _unfit(group: StoreGroup, change: RecoverGroup | PromoteLearner | FoundGroup) -> GroupRefusal | None:
    """Refusal of the named replica as the leader."""
    replica = group.replica(change.replica)
    if replica is None or replica.learner != isinstance(change, PromoteLearner) or not replica.incarnation:
        return GroupRefusal.NOT_A_REPLICA
    if all(each.member != replica.member for each in change.live):
        return GroupRefusal.NOT_ALIVE
    return None
