"""Changes of the SyncStateSet by its leader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.groups.groups import StoreGroups
from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import refused
from domain.controller.answer import GroupRefusal
from domain.controller.change import AlterSet, ElectLeader, SetMinInSync
from domain.controller.group import SetMember
from domain.controller.replica_word import ReplicaWord
from tests.controller.groups.sample import NAME, group_of, led, member, members, registered, says, start

GROW = AlterSet(NAME, 1, 1, 2, members(1, 2, 3))


@pytest.fixture
def groups() -> StoreGroups:
    return led((1, 2))


def test_the_leader_adds_and_removes_members(groups: StoreGroups) -> None:
    answer = groups.apply(GROW)
    assert answer.refusal is None
    assert answer.group is not None
    assert (answer.group.in_sync, answer.group.set_epoch, answer.group.leader_epoch) == ((1, 2, 3), 3, 1)
    assert groups.apply(AlterSet(NAME, 1, 1, 3, members(3, 1))).refusal is None
    assert (group_of(groups).in_sync, group_of(groups).set_epoch) == ((1, 3), 4)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (replace(GROW, group="another"), GroupRefusal.UNKNOWN_GROUP),
        (replace(GROW, leader=2), GroupRefusal.NOT_THE_LEADER),
        (replace(GROW, leader_epoch=0), GroupRefusal.OLD_LEADER_EPOCH),
        (replace(GROW, leader_epoch=2), GroupRefusal.OLD_LEADER_EPOCH),
        (replace(GROW, set_epoch=1), GroupRefusal.OLD_SET_EPOCH),
        (replace(GROW, set_epoch=3), GroupRefusal.OLD_SET_EPOCH),
        (replace(GROW, members=members(2, 1)), GroupRefusal.SAME_SET),
        (replace(GROW, members=members(2, 3)), GroupRefusal.LEADER_MISSING),
        (replace(GROW, members=()), GroupRefusal.LEADER_MISSING),
        (replace(GROW, members=(member(1, 2), member(2))), GroupRefusal.LEADER_MISSING),
        (replace(GROW, members=(*members(1, 2), member(3, 2))), GroupRefusal.NOT_A_REPLICA),
        (replace(GROW, members=members(1, 2, 9)), GroupRefusal.NOT_A_REPLICA),
        (replace(GROW, dead=(3,)), GroupRefusal.NOT_ALIVE),
        (replace(GROW, members=(*members(1, 2), SetMember(3, ""))), GroupRefusal.INVALID),
    ],
)
def test_a_change_that_is_refused_changes_nothing(groups: StoreGroups, change: AlterSet, refusal: GroupRefusal) -> None:
    before = group_of(groups)
    assert groups.apply(change).refusal is refusal
    assert group_of(groups) == before


def test_a_member_may_stay_that_is_dead() -> None:
    assert led((1, 2)).apply(replace(GROW, dead=(1, 2))).refusal is None


def test_a_learner_never_joins(groups: StoreGroups) -> None:
    start(groups, 3, learner=True)
    assert groups.apply(GROW).refusal is GroupRefusal.NOT_A_REPLICA


def test_a_log_that_was_replaced_on_the_way_does_not_join(groups: StoreGroups) -> None:
    start(groups, 3, life=2)
    assert groups.apply(GROW).refusal is GroupRefusal.NOT_A_REPLICA
    assert groups.apply(replace(GROW, members=(*members(1, 2), member(3, 2)))).refusal is None


def test_two_logs_of_one_replica_are_not_both_members(groups: StoreGroups) -> None:
    start(groups, 2, life=2)
    change = AlterSet(NAME, 1, 1, 2, (*members(1, 2), member(2, 2)))
    assert groups.apply(change).refusal is GroupRefusal.NOT_A_REPLICA
    assert groups.apply(replace(change, members=(member(1), member(2, 2)))).refusal is None


def test_who_has_no_leader_has_nobody_to_ask() -> None:
    groups = registered()
    assert groups.apply(AlterSet(NAME, 0, 0, 0, members(1))).refusal is GroupRefusal.NOT_THE_LEADER


def test_a_deposed_leader_is_fenced(groups: StoreGroups) -> None:
    assert groups.apply(ElectLeader(NAME, (says(2),))).refusal is None
    assert groups.apply(AlterSet(NAME, 1, 1, 2, members(1))).refusal is GroupRefusal.NOT_THE_LEADER
    assert groups.apply(AlterSet(NAME, 1, 2, 3, members(1))).refusal is GroupRefusal.NOT_THE_LEADER


def test_a_leader_that_has_not_heard_of_min_in_sync_does_not_shrink_the_set_below_it() -> None:
    """An operator raises it, and a follower is lost at once. The answer has the group, which the leader reviews again."""
    groups, heartbeats = led((1, 2), replicas=2), Heartbeats(0)
    shrink = AlterSet(NAME, 1, 1, 2, members(1))
    heartbeats.heard(NAME, ReplicaWord(replace(says(1), fence=0)), 0, object(), 0)
    assert refused(shrink, group_of(groups), heartbeats, 1) is None
    assert groups.apply(SetMinInSync(NAME, 2)).refusal is None
    assert refused(shrink, group_of(groups), heartbeats, 1) is GroupRefusal.OLD_SET_EPOCH
    heartbeats.heard(NAME, ReplicaWord(says(1)), 0, object(), 1)
    assert refused(shrink, group_of(groups), heartbeats, 2) is None, "a leader of a version before would ask without end"
