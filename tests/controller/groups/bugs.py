"""Known bugs of store groups, which the checks of the model have to find when they are put back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from controller.groups import election, membership, recovery, registration
from controller.groups.decision import Decision
from domain.controller.answer import GroupRefusal
from domain.controller.change import AlterSet, ElectLeader
from domain.controller.group import ReplicaReport, SetMember, StoreGroup
from tests.controller.groups.model import run
from tests.simulation.kit.bugs import Bugs, Patch

BUGS: Final = Bugs()


@BUGS.found_by(run, 50)
def set_reset(patch: Patch) -> None:
    """The SyncStateSet of a new leader is the leader alone."""
    led = election._led
    patch.setattr(election, "_led", lambda group, winner, voters, keeps_dead: led(group, winner, [], False))


@BUGS.found_by(run, 400)
def names_join(patch: Patch) -> None:
    """A member is an id: who joins is in the set with whatever log it has by then."""
    alter = membership.alter

    def by_id(group: StoreGroup, change: AlterSet) -> Decision:
        now = {each.id: each.incarnation for each in group.replicas}
        joined = tuple(each if each in group.members else SetMember(each.id, now.get(each.id, "")) for each in change.members)
        return alter(group, replace(change, members=joined))

    patch.setattr(membership, "alter", by_id)


@BUGS.found_by(run, 20)
def wiped_disk_wins(patch: Patch) -> None:
    """A replica of a member's name may be elected, whatever its log."""
    patch.setattr(election, "_has_kept_its_log", lambda group, member: group.replica(member.id) is not None)


@BUGS.found_by(run, 20)
def old_set_epoch(patch: Patch) -> None:
    """A change of the SyncStateSet is made though the set has changed since it was asked for."""

    def fenced(group: StoreGroup, change: AlterSet) -> GroupRefusal | None:
        return None if change.leader == group.leader else GroupRefusal.NOT_THE_LEADER

    patch.setattr(membership, "_fenced", fenced)


@BUGS.found_by(run, 20)
def leader_starts_again(patch: Patch) -> None:
    """A leader that starts again leads on in its epoch, without the tail that it had not synced."""
    patch.setattr(registration, "without_leader", lambda group: group)


@BUGS.found_by(partial(run, recovers=True), 20)
def given_up_too_soon(patch: Patch) -> None:
    """An operator's recovery is made while a member of the set is there."""
    patch.setattr(recovery, "electorate", lambda *_arguments, **_options: [])


@BUGS.found_by(partial(run, recovers=True), 20)
def anybody_wins(patch: Patch) -> None:
    """An election without a candidate takes any replica that is alive, without an operator: an unclean election."""
    before = election.electorate

    def anybody(group: StoreGroup, live: Iterable[ReplicaReport], asker: int = 0) -> list[ReplicaReport]:
        live = tuple(live)
        registered = {each.member for each in group.replicas}
        return before(group, live, asker) or [each for each in live if SetMember(each.id, each.incarnation) in registered]

    patch.setattr(election, "electorate", anybody)


with_acks = partial(run, steps=1_000, acks=True)


@BUGS.found_by(with_acks, 30)
def election_does_not_wait(patch: Patch) -> None:
    """An election waits for no further member, though not all members hold what is confirmed."""
    patch.setattr(StoreGroup, "electing", 1)


@BUGS.found_by(with_acks, 20, first=330)
def old_reports_count(patch: Patch) -> None:
    """An election believes reports of members that may still take bytes of the leader before."""

    def fenced(group: StoreGroup, change: ElectLeader) -> list[ReplicaReport]:
        voters = election.electorate(group, change.live)
        return election.complete(group, voters) if len(voters) >= group.electing else []

    patch.setattr(election, "_fenced", fenced)


@BUGS.found_by(with_acks, 80)
def shorter_log_wins(patch: Patch) -> None:
    """Any member that has reported since the leader was deposed may win, however short its log is."""
    patch.setattr(election, "complete", lambda group, reports: list(reports))


@BUGS.found_by(with_acks, 60)
def dead_members_leave(patch: Patch) -> None:
    """An election leaves the dead out of a set of which not all members hold what is confirmed."""
    patch.setattr(election, "_kept", lambda group: 0)
