"""Elections and changes of a group of which not all members hold what is confirmed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.groups.groups import StoreGroups
from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import informed, refused
from domain.controller.answer import GroupRefusal
from domain.controller.change import AlterSet, CleanReplicas, ElectLeader, RegisterReplica, SetAcks, SetMinInSync
from domain.controller.group import ReplicaReport
from domain.controller.replica_word import ReplicaWord
from tests.controller.groups.sample import CLUSTER, NAME, group_of, incarnation, led, members, says, start


def with_acks(count: int = 2) -> StoreGroups:
    """Replica 1 leads 2 and 3; `count` of the three confirm."""
    groups = led((1, 2, 3))
    assert groups.apply(SetAcks(NAME, count)).refusal is None
    assert groups.apply(AlterSet(NAME, 1, 1, group_of(groups).set_epoch, members(1, 2, 3), acks=count)).refusal is None
    return groups


def elect(groups: StoreGroups, *live: ReplicaReport, designated: int = 0, fenced: tuple[int, ...] = ()) -> GroupRefusal | None:
    change = ElectLeader(NAME, live, 0, designated, group_of(groups).leader_epoch, fenced=fenced)
    return groups.apply(change).refusal


def test_the_leader_is_deposed_before_logs_are_compared() -> None:
    groups = with_acks()
    assert elect(groups, says(2, position=500), says(3, position=400)) is None
    group = group_of(groups)
    assert (group.leader, group.leader_epoch, group.in_sync) == (0, 2, (1, 2, 3))
    assert elect(groups, says(2), says(3), fenced=(2,)) is GroupRefusal.TOO_FEW_FENCED
    assert elect(groups, says(2, position=500), says(3, position=700), fenced=(2, 3)) is None
    group = group_of(groups)
    assert (group.leader, group.leader_epoch) == (3, 3)
    assert group.in_sync == (1, 2, 3), "replica 1 may hold what only one of the others has: the leader leaves it out later"


def test_one_member_alone_is_not_elected() -> None:
    groups = with_acks()
    assert elect(groups, says(2), designated=2) is GroupRefusal.ELECTION_FAILED
    assert group_of(groups).leader == 1, "the leader stays: it may be alive"
    assert with_acks().apply(ElectLeader(NAME, (says(1), says(2)))).refusal is GroupRefusal.LEADER_VALID


@pytest.mark.parametrize(
    ("positions", "designated", "leader"),
    [((900, 500, 700), 3, 3), ((900, 500, 700), 2, 1), ((900, 500, 500), 2, 2), ((900, 500, 900), 1, 1)],
    ids=["second longest of three", "shortest: the longest instead", "as long as the second", "longest"],
)
def test_a_move_succeeds_to_a_member_that_has_what_two_may_have_confirmed(
    positions: tuple[int, int, int], designated: int, leader: int
) -> None:
    groups = with_acks()
    reports = [says(number, position=position) for number, position in enumerate(positions, 1)]
    group = group_of(groups)
    if designated != group.leader:
        assert elect(groups, *reports, designated=designated) is None
    else:
        assert elect(groups, *reports[1:]) is None
    refusal = elect(groups, *reports, designated=designated, fenced=(1, 2, 3))
    if refusal is GroupRefusal.ELECTION_FAILED:
        assert elect(groups, *reports, fenced=(1, 2, 3)) is None
    assert group_of(groups).leader == leader


def test_a_newer_epoch_is_longer_than_any_older_one() -> None:
    groups = with_acks()
    elect(groups, says(2), says(3))
    elect(groups, says(2, epoch=1, position=9_000), says(3, epoch=2, position=100), fenced=(2, 3))
    assert group_of(groups).leader == 3


def test_after_a_power_failure_of_all_each_log_that_is_left_is_waited_for() -> None:
    groups = with_acks()
    for number in (1, 2):
        start(groups, number, life=2, continues=incarnation(number))
    one, two, three = says(1, position=300, life=2), says(2, position=400, life=2), says(3, position=200)
    assert elect(groups, one, two, fenced=(1, 2)) is GroupRefusal.NO_CANDIDATE
    assert elect(groups, one, two, three, fenced=(1, 2)) is GroupRefusal.TOO_FEW_FENCED
    assert elect(groups, one, two, three, fenced=(1, 2, 3)) is None
    assert (group_of(groups).leader, group_of(groups).in_sync) == (2, (2,)), "it has all: it begins alone"


def test_two_wiped_members_of_three_leave_no_election() -> None:
    groups = with_acks()
    for number in (2, 3):
        start(groups, number, life=2)
    elect(groups, says(1), says(2, life=2), says(3, life=2))
    assert elect(groups, says(1), says(2, life=2), says(3, life=2), fenced=(1, 2, 3)) is GroupRefusal.NO_CANDIDATE


def test_a_member_leaves_the_set_by_word_of_the_leader_alone() -> None:
    groups = with_acks()
    learns = RegisterReplica(NAME, CLUSTER, 3, "h3:1", incarnation(3), True)
    assert groups.apply(learns).refusal is GroupRefusal.ACKS_IN_FORCE
    assert groups.apply(CleanReplicas(NAME, (3,))).refusal is GroupRefusal.ACKS_IN_FORCE
    assert groups.apply(AlterSet(NAME, 1, 1, group_of(groups).set_epoch, members(1, 2), acks=2)).refusal is None
    assert groups.apply(learns).refusal is None
    assert groups.apply(CleanReplicas(NAME, (3,))).refusal is None


def test_a_leader_of_a_version_before_confirms_by_all_members() -> None:
    groups = with_acks()
    assert groups.apply(AlterSet(NAME, 1, 1, group_of(groups).set_epoch, members(1, 2, 3))).refusal is None
    group = group_of(groups)
    assert (group.acks, group.electing, group.asked_acks) == (0, 1, 2)


def test_acks_is_from_min_in_sync_to_the_number_of_replicas() -> None:
    groups = led((1, 2, 3))
    assert [groups.apply(SetAcks(NAME, each)).refusal for each in (1, 4)] == [GroupRefusal.BAD_ACKS] * 2
    assert [groups.apply(SetAcks(NAME, each)).refusal for each in (3, 2)] == [None, None]
    assert groups.apply(SetMinInSync(NAME, 3)).refusal is GroupRefusal.BAD_ACKS
    assert group_of(groups).acks == 0, "the leader changes it, when it is safe"
    assert groups.apply(SetAcks(NAME, 0)).refusal is None
    assert groups.apply(SetMinInSync(NAME, 3)).refusal is None
    assert groups.apply(SetAcks("other", 2)).refusal is GroupRefusal.UNKNOWN_GROUP


def test_a_replica_of_a_version_before_has_no_fence_and_refuses_acks() -> None:
    groups, heartbeats = led((1, 2, 3)), Heartbeats(0)
    for number, fence in ((1, 0), (2, -1)):
        heartbeats.heard(NAME, ReplicaWord(replace(says(number), fence=fence)), 0, object(), 0)
    change = SetAcks(NAME, 2)
    assert refused(change, group_of(groups), heartbeats, 1) is GroupRefusal.OLD_VERSION
    heartbeats.heard(NAME, ReplicaWord(replace(says(2), fence=0)), 0, object(), 1)
    assert refused(change, group_of(groups), heartbeats, 1) is None


def test_a_report_counts_for_the_epoch_in_which_it_was_fenced() -> None:
    groups, heartbeats = with_acks(), Heartbeats(0)
    assert elect(groups, says(2), says(3)) is None
    for number, fence in ((1, 0), (2, 2), (3, 1)):
        heartbeats.heard(NAME, ReplicaWord(replace(says(number), fence=fence)), 0, object(), 0)
    found = informed(ElectLeader(NAME), group_of(groups), heartbeats, 1)
    assert isinstance(found, ElectLeader)
    assert (found.leader_epoch, found.fenced) == (2, (2,))
