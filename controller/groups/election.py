"""Election of the leader of a store group: a live member of its SyncStateSet, with the log that it had as a member.

Where all members hold what is confirmed, each of them may win, at once. Where fewer do (`acks`), the leader is deposed first,
and members that have learned of it report how far their logs go; StoreGroup.electing of such reports elect: see
docs/decisions/0115-acks-of-a-store-group.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from controller.groups.decision import Decision, named, without_leader
from domain.controller.answer import GroupRefusal
from domain.controller.change import ANY_EPOCH, ElectLeader
from domain.controller.group import PRIORITY_LAST, ReplicaReport, SetMember, StoreGroup, StoreReplica


def elect(group: StoreGroup, change: ElectLeader) -> Decision:
    """Elect a leader among `electorate`, or refuse with the reason."""
    if any(each and group.replica(each) is None for each in (change.asker, change.designated)):
        return Decision(group, GroupRefusal.NOT_REGISTERED)
    if change.leader_epoch not in (ANY_EPOCH, group.leader_epoch):
        return Decision(group, GroupRefusal.OLD_LEADER_EPOCH)
    group = _notified(group, change.live)
    voters = electorate(group, change.live, change.asker)
    if group.leader in {each.id for each in voters} and change.designated in (0, group.leader):
        return Decision(group, GroupRefusal.LEADER_VALID)
    if group.electing > 1 and voters:
        if change.designated and change.designated not in {each.id for each in voters}:
            return Decision(group, GroupRefusal.ELECTION_FAILED)
        if group.leader:
            return Decision(without_leader(group))
        voters = _fenced(group, change)
        if not voters:
            return Decision(group, GroupRefusal.TOO_FEW_FENCED)
    # Members have all that was confirmed, so among them fitness goes before a longer tail. The first election has no members.
    order = preference if group.members else rank
    winner = min((each for each in voters if change.designated in (0, each.id)), key=order, default=None)
    if winner is not None:
        return Decision(named(_led(group, winner, voters, change.keeps_dead), winner.id, change.fresh))
    if change.asker or change.designated:
        return Decision(group, GroupRefusal.ELECTION_FAILED)
    return Decision(without_leader(group) if group.leader else group, GroupRefusal.NO_CANDIDATE)


def electorate(group: StoreGroup, live: Iterable[ReplicaReport], asker: int = 0) -> list[ReplicaReport]:
    """Replicas that may win, and will be in the SyncStateSet of the winner.

    - before the first election: every replica that is alive, registered and no learner
    - then: the members of the SyncStateSet that are alive with the log that they had as members
    - when no member has the log that it had as a member (all have lost power at once), or fewer have than an election needs:
      the longest of these logs and of those that continue one and have all its flushed records. The election waits for each of
      these logs: an absent one might have more. A wiped disk has no such log, and never wins.

    Nobody may win while fewer are alive than an election needs (StoreGroup.electing).
    """
    reports = {each.id: each for each in live if _is_registered(group, each)}
    if not group.members:
        if asker:
            reports.setdefault(asker, _as_last_said(group, asker))
        return [each for each in reports.values() if _may_join(group.replica(each.id), each.incarnation)]
    kept = [each for each in group.members if _has_kept_its_log(group, each)]
    if len(kept) >= group.electing:
        proven = [reports[each.id] for each in kept if each.id in reports]
        return proven if len(proven) >= group.electing else []
    heirs = [each.id for each in group.replicas if SetMember(each.id, each.continues_log) in group.members]
    sources = {*heirs, *(each.id for each in kept)}
    if len(sources) < group.electing or any(each not in reports for each in sources):
        return []
    longest = min((reports[each] for each in sources), key=rank)
    return [longest] if _may_join(group.replica(longest.id), longest.incarnation) else []


def is_decidable(group: StoreGroup, change: ElectLeader) -> bool:
    """False while an election would only find too few reports since the leader was deposed."""
    return group.electing == 1 or bool(group.leader) or bool(_fenced(group, change))


def _fenced(group: StoreGroup, change: ElectLeader) -> list[ReplicaReport]:
    """Replicas that may win where not all members hold what is confirmed: by the reports since the leader was deposed."""
    if change.leader_epoch != group.leader_epoch:
        return []
    voters = electorate(group, [each for each in change.live if each.id in change.fenced])
    return complete(group, voters) if len(voters) >= group.electing else voters


def complete(group: StoreGroup, reports: Sequence[ReplicaReport]) -> list[ReplicaReport]:
    """Those of `reports`, at least StoreGroup.electing, whose logs have all that may be confirmed.

    A record is confirmed when StoreGroup.confirming members hold it. If all members without a report do, the others have
    reported; a log that is at least as long as the shortest of theirs has the record, too.
    """
    missing = len(group.members) - len(reports)
    bound = sorted(reports, key=_reach, reverse=True)[group.confirming - missing - 1]
    return [each for each in reports if _reach(each) >= _reach(bound)]


def _reach(report: ReplicaReport) -> tuple[int, int]:
    """How far a log goes. Logs of one epoch are begins of the log of its leader; a later epoch begins with all that was
    confirmed before."""
    return report.epoch, report.position


def rank(report: ReplicaReport) -> tuple[int, int, int, int]:
    """Sort key of candidates, the best first: higher epoch, higher position, lower priority number, lower id."""
    return -report.epoch, -report.position, report.priority, report.id


def preference(report: ReplicaReport) -> tuple[int, ...]:
    """Sort key of members: by fitness, then `rank`."""
    return max(report.priority - PRIORITY_LAST, 0), *rank(report)


def _led(group: StoreGroup, winner: ReplicaReport, voters: Iterable[ReplicaReport], keeps_dead: bool) -> StoreGroup:
    """Group under its new leader. The SyncStateSet loses its dead members: replicas with all records stay in it.

    With fewer of those than `min_in_sync` the dead stay, too: nothing is confirmed without them, so each may lead later.
    Before the first election no replica has all records, and the set is the leader alone. Where not all members hold what is
    confirmed, the set stays as it is: of fewer members an election could need one that has not all. The leader leaves the dead
    out when the others hold it. With a log that only continues the one of a member, the winner is alone: it has all.
    """
    members = {each.member for each in voters} if group.members else set()
    if group.electing > 1 and _kept(group) >= group.electing:
        members = set(group.members)
    elif keeps_dead and len(members) < group.min_in_sync:
        members.update(each for each in group.members if _has_kept_its_log(group, each))
    members.add(winner.member)
    return replace(
        group,
        leader=winner.id,
        leader_epoch=group.leader_epoch + 1,
        members=tuple(sorted(members)),
        set_epoch=group.set_epoch + 1,
    )


def _notified(group: StoreGroup, live: Iterable[ReplicaReport]) -> StoreGroup:
    """Group with the positions that its replicas have reported."""
    said = {each.id: each for each in live if _is_registered(group, each)}
    return replace(
        group,
        replicas=tuple(
            replace(each, epoch=said[each.id].epoch, position=said[each.id].position) if each.id in said else each
            for each in group.replicas
        ),
    )


def _is_registered(group: StoreGroup, report: ReplicaReport) -> bool:
    """True for the word of a replica with the log that it has registered."""
    replica = group.replica(report.id)
    return replica is not None and bool(report.incarnation) and replica.incarnation == report.incarnation


def _kept(group: StoreGroup) -> int:
    """Number of the members that have the logs that they had as members, alive or not."""
    return sum(_has_kept_its_log(group, each) for each in group.members)


def _has_kept_its_log(group: StoreGroup, member: SetMember) -> bool:
    """True for a member whose replica has the log that it had as a member, alive or not."""
    replica = group.replica(member.id)
    return replica is not None and replica.incarnation == member.incarnation


def _may_join(replica: StoreReplica | None, incarnation: str) -> bool:
    return replica is not None and not replica.learner and bool(incarnation)


def _as_last_said(group: StoreGroup, replica_id: int) -> ReplicaReport:
    replica = group.replica(replica_id)
    if replica is None:
        return ReplicaReport(replica_id, "")
    return ReplicaReport(replica.id, replica.incarnation, replica.epoch, replica.position)
