"""The SyncStateSet: the replicas that must have a record before it counts as replicated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.groups.decision import Decision
from domain.controller.answer import GroupRefusal
from domain.controller.change import AlterSet
from domain.controller.group import SetMember, StoreGroup


def alter(group: StoreGroup, change: AlterSet) -> Decision:
    """The leader replaces the SyncStateSet by its own word, under its epoch and that of the set it replaces.

    A leader of a version before says no `acks`: it confirms what all members have, and the group is one of these from then on.
    """
    refusal = _fenced(group, change)
    members = tuple(sorted(set(change.members)))
    if refusal is None and members == group.members and change.acks == group.acks:
        refusal = GroupRefusal.SAME_SET
    if refusal is None and not any(each.id == group.leader and each in group.members for each in members):
        refusal = GroupRefusal.LEADER_MISSING
    if refusal is None:
        refusal = newcomers_refused(group, [each for each in members if each not in group.members], change.dead)
    if refusal is None and len({each.id for each in members}) < len(members):
        refusal = GroupRefusal.NOT_A_REPLICA  # two logs of one replica
    if refusal is not None:
        return Decision(group, refusal)
    return Decision(replace(group, members=members, acks=change.acks, set_epoch=group.set_epoch + 1))


def newcomers_refused(group: StoreGroup, newcomers: Iterable[SetMember], dead: Iterable[int]) -> GroupRefusal | None:
    """Refusal of one of `newcomers`; None: all may join. A member is a log, not a name."""
    for each in newcomers:
        replica = group.replica(each.id)
        if replica is None or replica.learner or not each.incarnation or replica.incarnation != each.incarnation:
            return GroupRefusal.NOT_A_REPLICA
        if each.id in dead:
            return GroupRefusal.NOT_ALIVE
    return None


def _fenced(group: StoreGroup, change: AlterSet) -> GroupRefusal | None:
    if not group.leader or change.leader != group.leader:
        return GroupRefusal.NOT_THE_LEADER
    if change.leader_epoch != group.leader_epoch:
        return GroupRefusal.OLD_LEADER_EPOCH
    return None if change.set_epoch == group.set_epoch else GroupRefusal.OLD_SET_EPOCH
