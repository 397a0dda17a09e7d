"""Additions and refusals of the leading controller before a change is replicated, from its knowledge of live replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.groups.election import electorate
from controller.groups.heartbeats import Heartbeats
from domain.controller.answer import GroupRefusal
from domain.controller.change import (
    ANY_EPOCH,
    AlterSet,
    ApplyId,
    CleanReplicas,
    ElectLeader,
    FoundGroup,
    GroupChange,
    PromoteLearner,
    RecoverGroup,
    RegisterReplica,
    SetAcks,
)
from domain.controller.group import EPOCH_SAID_MAX, UNKNOWN, ReplicaReport, StoreGroup, differ
from domain.controller.replica_word import ReplicaWord


def informed(change: GroupChange, group: StoreGroup | None, heartbeats: Heartbeats, now_ms: int) -> GroupChange:
    """Change with the reports of the replicas of its group; reports from a client are ignored."""
    if group is None:
        return change
    if isinstance(change, ElectLeader):
        live = heartbeats.live(group, now_ms)
        # Brokers of Apache, which say no run, leave out members by themselves.
        change = replace(change, keeps_dead=any(each.run for each in group.replicas))
        if group.electing == 1:
            return replace(change, live=live)
        epoch = group.leader_epoch if change.leader_epoch == ANY_EPOCH else change.leader_epoch
        return replace(change, live=live, leader_epoch=epoch, fenced=tuple(each.id for each in live if each.fence == epoch))
    if isinstance(change, RecoverGroup | PromoteLearner):
        return replace(change, live=heartbeats.live(group, now_ms))
    if isinstance(change, FoundGroup):
        return replace(change, live=_above(group, heartbeats.live(group, now_ms), heartbeats.reports(group)))
    if isinstance(change, ApplyId):
        return replace(change, dead=_lost(change, group, heartbeats, now_ms))
    if isinstance(change, AlterSet):
        return replace(change, dead=heartbeats.dead(group, now_ms))
    if isinstance(change, CleanReplicas):
        return replace(change, live=tuple(each.id for each in heartbeats.live(group, now_ms)))
    return change


def _above(group: StoreGroup, live: Iterable[ReplicaReport], said: Iterable[ReplicaReport]) -> tuple[ReplicaReport, ...]:
    """Reports for a change that begins in an epoch above those that they state: above the newest state that was seen, too.

    Commands have no such states. When one proves that this is an older copy, live replicas of this group state an epoch for it.
    """
    proofs = [max(each.epoch, each.seen.leader_epoch) for each in said if group.is_behind(each)]
    if not proofs:
        return tuple(live)
    least = min(max(group.newest_led + 1, *proofs), EPOCH_SAID_MAX)
    return tuple(replace(each, epoch=max(each.epoch, least)) for each in live)


def _lost(change: ApplyId, group: StoreGroup, heartbeats: Heartbeats, now_ms: int) -> tuple[int, ...]:
    """The replica that had the id before, when it is dead and another node applies for it."""
    known = group.replica(change.id)
    if known is None or known.node == change.node or not heartbeats.is_dead(group.name, change.id, now_ms):
        return ()
    return (change.id,)


def refused(change: GroupChange, group: StoreGroup | None, heartbeats: Heartbeats, now_ms: int) -> GroupRefusal | None:
    """Refusal of a change before its replication; None: the rules of the group decide.

    An election makes a log the group's. So it is not held while a replica has a log that was in an election of which this
    controller does not know.
    """
    if group is None:
        return None
    if isinstance(change, ElectLeader) and group.lacks_election(heartbeats.reports(group)):
        return GroupRefusal.FORGOTTEN
    if isinstance(change, RegisterReplica) and heartbeats.runs_elsewhere(group.name, change.id, change.run, now_ms):
        return GroupRefusal.RUNS_ELSEWHERE
    if isinstance(change, RegisterReplica) and change.incarnation and change.incarnation == _continued_by(group, change.id):
        return GroupRefusal.COPIED  # late, from a process before: the registered log continues this one
    if isinstance(change, AlterSet) and _is_too_small(change, group, heartbeats.live(group, now_ms)):
        return GroupRefusal.OLD_SET_EPOCH
    if isinstance(change, SetAcks) and change.wanted and any(each.fence == UNKNOWN for each in heartbeats.live(group, now_ms)):
        return GroupRefusal.OLD_VERSION
    if isinstance(change, ElectLeader) and _is_unfenceable(change, group, heartbeats.live(group, now_ms)):
        return GroupRefusal.OLD_VERSION
    return None


def _is_unfenceable(change: ElectLeader, group: StoreGroup, live: Iterable[ReplicaReport]) -> bool:
    """True for a move in a group of which not all members hold what is confirmed, that would depose the leader for nothing:
    replicas of a version before state no fence, and their reports elect nobody."""
    if not change.designated or not group.leader or group.electing == 1:
        return False
    voters = electorate(group, live)
    able = {each.id for each in voters if each.fence != UNKNOWN}
    is_old = any(each.id == change.designated for each in voters) and change.designated not in able
    return is_old or len(able) < min(group.electing, len(voters))


def of_stranger(word: ReplicaWord, group: StoreGroup, heartbeats: Heartbeats, now_ms: int) -> GroupRefusal | None:
    """Refusal of a heartbeat of another store group, or of a second process of a replica; None: neither.

    Before its first election a group has no identity. There a replica of Headgate is the process that has registered last: it
    registers before its first heartbeat.
    """
    if differ(group.identity, word.identity):
        return GroupRefusal.OTHER_GROUP
    known = group.replica(word.report.id)
    if known is not None and word.run and not group.members:
        if known.incarnation != word.report.incarnation:
            return GroupRefusal.OTHER_GROUP
        if known.run not in ("", word.run):
            return GroupRefusal.RUNS_ELSEWHERE
    is_second = heartbeats.runs_elsewhere(group.name, word.report.id, word.run, now_ms)
    return GroupRefusal.RUNS_ELSEWHERE if is_second else None


def _is_too_small(change: AlterSet, group: StoreGroup, live: Iterable[ReplicaReport]) -> bool:
    """True for a set below `min_in_sync` of a leader that does not know it yet; leaders of versions before know no bound."""
    knows_bound = any(each.id == change.leader and each.fence != UNKNOWN for each in live)
    return knows_bound and len(change.members) < min(group.min_in_sync, len(group.members))


def _continued_by(group: StoreGroup, replica_id: int) -> str:
    """The log that the registered one of a replica continues; "": none."""
    replica = group.replica(replica_id)
    return "" if replica is None else replica.continues_log
