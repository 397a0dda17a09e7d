"""Who is elected, and who is not."""

from __future__ import annotations

import pytest

from controller.groups.groups import StoreGroups
from domain.controller.answer import GroupRefusal
from domain.controller.change import ElectLeader, SetMinInSync
from domain.controller.group import PRIORITY_LAST, ReplicaReport
from domain.controller.health import Fitness
from tests.controller.groups.sample import NAME, group_of, incarnation, led, member, members, registered, says, start


@pytest.fixture
def groups() -> StoreGroups:
    return led((1, 2))


@pytest.mark.parametrize(
    ("live", "leader"),
    [
        ((says(2, epoch=2), says(3, epoch=1, position=900)), 2),
        ((says(2, position=100), says(3, position=101)), 3),
        ((says(2, priority=7), says(3, priority=6)), 3),
        ((says(3), says(2)), 2),
        ((says(3),), 3),
    ],
    ids=["higher epoch", "higher position", "lower priority number", "lower id", "the only one alive"],
)
def test_the_best_live_member_of_the_set_leads(live: tuple[ReplicaReport, ...], leader: int) -> None:
    groups = led((1, 2, 3))
    answer = groups.apply(ElectLeader(NAME, live))
    assert answer.refusal is None
    assert answer.group is not None
    assert (answer.group.leader, answer.group.leader_epoch, answer.group.set_epoch) == (leader, 2, 3)


def test_a_member_that_should_not_lead_is_elected_when_nobody_else_can_be() -> None:
    slow, off = PRIORITY_LAST + Fitness.SLOW, PRIORITY_LAST + Fitness.CLOCK_OFF
    groups = led((1, 2, 3))
    groups.apply(ElectLeader(NAME, (says(2, epoch=2, position=900, priority=slow), says(3))))
    assert (group_of(groups).leader, group_of(groups).in_sync) == (3, (2, 3)), "it stays in the set"
    groups = led((1, 2, 3))
    groups.apply(ElectLeader(NAME, (says(2, position=900, priority=off), says(3, priority=slow))))
    assert group_of(groups).leader == 3
    groups.apply(ElectLeader(NAME, (says(2, priority=off),)))
    assert group_of(groups).leader == 2


def test_before_the_first_election_the_longest_log_counts_alone() -> None:
    groups = registered()
    groups.apply(ElectLeader(NAME, (says(1, position=200, priority=PRIORITY_LAST + 1), says(2, position=100)), asker=2))
    assert group_of(groups).leader == 1


def test_an_election_keeps_the_set_without_the_dead() -> None:
    groups = led((1, 2, 3, 4), replicas=5)
    groups.apply(ElectLeader(NAME, (says(2), says(4), says(5, position=999))))
    group = group_of(groups)
    assert (group.leader, group.in_sync) == (2, (2, 4)), "5 was not in the set, 1 and 3 are dead"


def test_positions_that_were_said_are_kept() -> None:
    groups = led((1, 2, 3))
    groups.apply(ElectLeader(NAME, (says(2, 4, 70), says(3, 4, 60), says(1, 9, 9, life=2))))
    assert [(each.epoch, each.position) for each in group_of(groups).replicas] == [(1, 100), (4, 70), (4, 60)]


def test_a_leader_that_is_alive_stays_unless_another_is_designated(groups: StoreGroups) -> None:
    before = group_of(groups)
    for change in (
        ElectLeader(NAME, (says(1), says(2, position=900))),
        ElectLeader(NAME, (says(1), says(2)), asker=2),
        ElectLeader(NAME, (says(1), says(2)), designated=1),
    ):
        answer = groups.apply(change)
        assert answer.refusal is GroupRefusal.LEADER_VALID
        assert answer.group is not None
        assert (answer.group.leader, answer.group.leader_epoch, answer.group.set_epoch) == (1, 1, before.set_epoch)
    assert groups.apply(ElectLeader(NAME, (says(1), says(2)), designated=2)).refusal is None
    assert (group_of(groups).leader, group_of(groups).in_sync) == (2, (1, 2))


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (ElectLeader(NAME, (says(3),), designated=3), GroupRefusal.ELECTION_FAILED),
        (ElectLeader(NAME, (says(3),), asker=3), GroupRefusal.ELECTION_FAILED),
        (ElectLeader(NAME, (says(2),), designated=1), GroupRefusal.ELECTION_FAILED),
        (ElectLeader(NAME, (says(2, life=2),), asker=2), GroupRefusal.ELECTION_FAILED),
        (ElectLeader(NAME, (says(2),), leader_epoch=0), GroupRefusal.OLD_LEADER_EPOCH),
        (ElectLeader(NAME, (says(2),), asker=9), GroupRefusal.NOT_REGISTERED),
        (ElectLeader(NAME, (says(2),), designated=9), GroupRefusal.NOT_REGISTERED),
    ],
    ids=["not in the set", "asks, not in the set", "dead", "another log", "old epoch", "unknown asker", "unknown"],
)
def test_an_election_that_is_refused_changes_no_leader(groups: StoreGroups, change: ElectLeader, refusal: GroupRefusal) -> None:
    before = group_of(groups)
    assert groups.apply(change).refusal is refusal
    after = group_of(groups)
    assert (after.leader, after.leader_epoch, after.members, after.set_epoch) == (1, 1, before.members, before.set_epoch)


def test_nobody_leads_when_no_member_is_alive_and_the_set_stays(groups: StoreGroups) -> None:
    assert groups.apply(ElectLeader(NAME, (says(3),), leader_epoch=1)).refusal is GroupRefusal.NO_CANDIDATE
    group = group_of(groups)
    assert (group.leader, group.leader_epoch, group.members, group.set_epoch) == (0, 2, members(1, 2), 2)
    assert groups.apply(ElectLeader(NAME, (says(3),))).refusal is GroupRefusal.NO_CANDIDATE
    assert group_of(groups).leader_epoch == 2, "there is no leader to depose"
    assert groups.apply(ElectLeader(NAME, (says(2),))).refusal is None
    assert (group_of(groups).leader, group_of(groups).leader_epoch) == (2, 3)


def test_the_first_leader_is_the_best_of_the_registered_and_the_set_is_it_alone() -> None:
    groups = registered()
    start(groups, 3, learner=True)
    groups.apply(ElectLeader(NAME, (says(2, position=200), says(3, position=999)), asker=1))
    group = group_of(groups)
    assert (group.leader, group.leader_epoch, group.in_sync, group.set_epoch) == (2, 1, (2,), 1)


def test_who_asks_first_leads_though_it_was_not_heard_yet() -> None:
    groups = registered()
    assert groups.apply(ElectLeader(NAME, asker=2)).refusal is None
    assert group_of(groups).leader == 2
    groups = registered()
    start(groups, 2, learner=True)
    assert groups.apply(ElectLeader(NAME, asker=2)).refusal is GroupRefusal.ELECTION_FAILED


def test_a_new_incarnation_is_not_elected_before_it_has_joined(groups: StoreGroups) -> None:
    start(groups, 2, life=2)
    answer = groups.apply(ElectLeader(NAME, (says(2, epoch=9, position=900, life=2), says(2, epoch=9, position=900))))
    assert answer.refusal is GroupRefusal.NO_CANDIDATE


def lose_power(groups: StoreGroups, *ids: int) -> None:
    for each in ids:
        start(groups, each, life=2, continues=incarnation(each))


def test_after_a_power_failure_of_all_the_longest_log_leads_alone() -> None:
    groups = led((1, 2, 3))
    lose_power(groups, 1, 2, 3)
    live = (says(1, position=70, life=2), says(2, position=90, life=2), says(3, position=80, life=2))
    assert groups.apply(ElectLeader(NAME, live, designated=1)).refusal is GroupRefusal.ELECTION_FAILED
    assert groups.apply(ElectLeader(NAME, live)).refusal is None
    group = group_of(groups)
    assert (group.leader, group.members) == (2, (member(2, 2),))


def test_after_a_power_failure_of_all_every_log_is_waited_for() -> None:
    groups = led((1, 2, 3))
    lose_power(groups, 1, 2, 3)
    live = (says(1, life=2), says(2, life=2))
    assert groups.apply(ElectLeader(NAME, live)).refusal is GroupRefusal.NO_CANDIDATE
    assert groups.apply(ElectLeader(NAME, (*live, says(3, life=2)))).refusal is None


def test_a_member_that_kept_its_log_is_waited_for() -> None:
    groups = led((1, 2, 3))
    lose_power(groups, 1, 2)
    live = (says(1, life=2), says(2, life=2))
    assert groups.apply(ElectLeader(NAME, live)).refusal is GroupRefusal.NO_CANDIDATE
    assert groups.apply(ElectLeader(NAME, (*live, says(3)))).refusal is None
    assert group_of(groups).members == members(3)


def test_a_wiped_disk_never_wins_and_is_not_waited_for(groups: StoreGroups) -> None:
    start(groups, 1, life=2)
    start(groups, 2, life=2)
    live = (says(1, epoch=9, position=999, life=2), says(2, life=2))
    assert groups.apply(ElectLeader(NAME, live)).refusal is GroupRefusal.NO_CANDIDATE
    groups = led((1, 2))
    start(groups, 1, life=2)
    lose_power(groups, 2)
    assert groups.apply(ElectLeader(NAME, (says(2, life=2),))).refusal is None
    assert group_of(groups).members == (member(2, 2),)


def test_the_longest_log_of_all_does_not_lead_when_it_is_a_learner_by_now(groups: StoreGroups) -> None:
    lose_power(groups, 1)
    start(groups, 2, life=2, continues=incarnation(2), learner=True)
    live = (says(1, position=70, life=2), says(2, position=90, life=2))
    assert groups.apply(ElectLeader(NAME, live)).refusal is GroupRefusal.NO_CANDIDATE


def test_fewer_living_members_than_min_in_sync_keep_the_dead() -> None:
    """What was acknowledged is in each of them, and nothing is confirmed without them: each may lead when it comes back."""
    groups = led((1, 2, 3))
    assert groups.apply(ElectLeader(NAME, (says(2), says(3)), keeps_dead=True)).refusal is None
    assert group_of(groups).in_sync == (2, 3), "two are enough"
    assert groups.apply(ElectLeader(NAME, (says(3),), keeps_dead=True)).refusal is None
    assert (group_of(groups).leader, group_of(groups).in_sync) == (3, (2, 3))
    assert groups.apply(ElectLeader(NAME, (says(1), says(2)), keeps_dead=True)).refusal is None
    assert (group_of(groups).leader, group_of(groups).in_sync) == (2, (2, 3)), "1 may lack what the other two have confirmed"


def test_a_dead_member_without_its_log_is_not_kept() -> None:
    groups = led((1, 2, 3))
    start(groups, 2, life=2)
    assert groups.apply(ElectLeader(NAME, (says(3),), keeps_dead=True)).refusal is None
    assert group_of(groups).members == members(1, 3)


def test_one_member_is_enough_where_it_is_to_be() -> None:
    groups = led((1, 2, 3))
    assert groups.apply(SetMinInSync(NAME, 1)).refusal is None
    assert groups.apply(ElectLeader(NAME, (says(3),), keeps_dead=True)).refusal is None
    assert group_of(groups).in_sync == (3,)


def test_where_a_controller_of_a_version_before_is_there_the_dead_leave_the_set() -> None:
    groups = led((1, 2, 3))
    assert groups.apply(ElectLeader(NAME, (says(3),))).refusal is None
    assert group_of(groups).in_sync == (3,)
