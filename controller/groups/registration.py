"""Replicas of a store group: ids, registration with an incarnation, and removal."""

from __future__ import annotations

from dataclasses import replace

from controller.groups.decision import Decision, named, without_leader
from domain.controller.answer import GroupRefusal
from domain.controller.change import ApplyId, CleanReplicas, RegisterReplica
from domain.controller.group import REPLICAS_MAX, UNKNOWN, StoreGroup, StoreReplica


def apply_id(group: StoreGroup, change: ApplyId) -> Decision:
    """Give an id to a node. An id that was once given is another node's only when its own node has lost its directory."""
    known = group.replica(change.id)
    if known is not None and known.node != change.node and _is_lost(group, known, change):
        now = replace(known, node=change.node, run="")
        return Decision(replace(group, replicas=tuple(now if each.id == now.id else each for each in group.replicas)))
    if known is not None:
        return Decision(group, None if known.node == change.node else GroupRefusal.ID_TAKEN)
    if change.id != group.next_id or change.cluster != group.cluster:
        return Decision(group, GroupRefusal.ID_TAKEN)
    if len(group.replicas) >= REPLICAS_MAX:
        return Decision(group, GroupRefusal.TOO_MANY)
    replica = StoreReplica(change.id, change.node, change.address)
    return Decision(replace(group, next_id=change.id + 1, replicas=(*group.replicas, replica)))


def _is_lost(group: StoreGroup, known: StoreReplica, change: ApplyId) -> bool:
    """True when a replica is dead, its address is the applicant's, and no acknowledgement and no election counts its log.

    Its own directory, should it come back, gets another id.
    """
    is_needed = known.member in group.members or group.leader == known.id
    return known.id in change.dead and known.address == change.address and change.cluster == group.cluster and not is_needed


def register(group: StoreGroup, change: RegisterReplica) -> Decision:
    """Register a replica that has started.

    The SyncStateSet keeps the log that the replica had before: only the leader, or an election, removes it. The last
    SyncStateSet is thus known when all its members have lost their logs.

    A data directory records each process that has begun in it. Of a directory and its copies only one may continue: the one
    whose process registers first, since the others have no record of that process. A directory without a log claims nothing,
    and registers.
    """
    known = group.replica(change.id)
    if known is None or change.cluster != group.cluster:
        return Decision(group, GroupRefusal.NOT_REGISTERED)
    same_log = known.incarnation == change.incarnation
    if change.identity and change.identity != group.identity and not _gives_identity(group, same_log):
        return Decision(group, GroupRefusal.OTHER_GROUP)
    is_next = not known.run or change.run in ("", known.run) or known.run in change.runs_before
    if not is_next and (same_log or change.continues):
        return Decision(group, GroupRefusal.COPIED)
    if change.learner and same_log and known.member in group.members:
        if group.electing > 1:
            return Decision(group, GroupRefusal.ACKS_IN_FORCE)
        rest = tuple(each for each in group.members if each != known.member)
        if not rest:
            return Decision(group, GroupRefusal.LAST_MEMBER)
        group = replace(group, members=rest, set_epoch=group.set_epoch + 1)
    said = change.position != UNKNOWN or not same_log
    now = replace(
        known,
        address=change.address,
        incarnation=change.incarnation,
        learner=change.learner,
        epoch=change.epoch if said else known.epoch,
        position=change.position if said else known.position,
        continues_log=known.continues_log if same_log else _inherited(group, known, change.continues),
        run=change.run,
        identity=change.identity or (known.identity if same_log else ""),
    )
    group = replace(group, replicas=tuple(now if each.id == now.id else each for each in group.replicas))
    if group.members:
        group = named(group, now.id, change.fresh)
    return Decision(without_leader(group) if group.leader == now.id else group)


def _gives_identity(group: StoreGroup, same_log: bool) -> bool:
    """True when a log with an identity may register in a group that has none: before the first election, whose winner decides,
    or when it is the log that the group knows."""
    return not group.identity and (not group.members or same_log)


def _inherited(group: StoreGroup, before: StoreReplica, continues: str) -> str:
    """Log of a member whose flushed records a new log has, when the new log continues `before`."""
    if not continues:
        return ""
    if continues == before.continues_log:
        return continues
    if continues != before.incarnation:
        return ""
    return before.incarnation if before.member in group.members else before.continues_log


def clean(group: StoreGroup, change: CleanReplicas) -> Decision:
    """Remove replicas; the group itself with the last of them."""
    gone = set(change.ids) if change.ids else {each.id for each in group.replicas}
    if not change.even_living and (gone & set(change.live) or (not change.ids and group.leader)):
        return Decision(group, GroupRefusal.ALIVE)
    replicas = tuple(each for each in group.replicas if each.id not in gone)
    if not replicas:
        return Decision(None)
    members = tuple(each for each in group.members if each.id not in gone)
    if group.members and not members:
        return Decision(group, GroupRefusal.LAST_MEMBER)
    if members != group.members:
        if group.electing > 1:
            return Decision(group, GroupRefusal.ACKS_IN_FORCE)
        group = replace(group, members=members, set_epoch=group.set_epoch + 1)
    group = replace(group, replicas=replicas)
    return Decision(without_leader(group) if group.leader in gone else group)
