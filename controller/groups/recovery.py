"""The election that loses records: an operator has decided that no member of the SyncStateSet comes back."""

from __future__ import annotations

from dataclasses import replace

from controller.groups.election import electorate
from controller.groups.ruling import Ruling
from domain.controller.answer import GroupRefusal
from domain.controller.change import RecoverGroup
from domain.controller.group import StoreGroup


def recover(group: StoreGroup, change: RecoverGroup) -> Ruling:
    """Make one replica the only member and the leader. Refused while an election that loses nothing has a winner."""
    refusal = _refused(group, change)
    if refusal is not None:
        return Ruling(group, refusal)
    winner = group.replica(change.replica)
    assert winner is not None
    return Ruling(
        replace(
            group,
            leader=winner.id,
            leader_epoch=group.leader_epoch + 1,
            members=(winner.member,),
            set_epoch=group.set_epoch + 1,
        )
    )


def _refused(group: StoreGroup, change: RecoverGroup) -> GroupRefusal | None:
    if change.typed != group.name:
        return GroupRefusal.NOT_TYPED
    if change.set_epoch != group.set_epoch:
        return GroupRefusal.OLD_SET_EPOCH
    if not group.members or electorate(group, change.live):
        return GroupRefusal.MEMBER_COMES_BACK
    replica = group.replica(change.replica)
    if replica is None or replica.learner or not replica.incarnation:
        return GroupRefusal.NOT_A_REPLICA
    if all((each.id, each.incarnation) != replica.member for each in change.live):
        return GroupRefusal.NOT_ALIVE
    return None
