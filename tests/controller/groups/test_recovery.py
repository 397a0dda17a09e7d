"""The election that an operator decides, when no member of the SyncStateSet comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.groups.groups import StoreGroups
from domain.controller.answer import GroupRefusal
from domain.controller.change import ElectLeader, FoundGroup, PromoteLearner, RecoverGroup, RegisterReplica
from domain.controller.group import EPOCH_SAID_MAX, NUMBER_MAX
from tests.controller.groups.sample import CLUSTER, NAME, group_of, incarnation, led, member, registered, says, start


def lost() -> StoreGroups:
    """Replicas 1 and 2 were in the set, and their disks are gone; 3 was never in it."""
    groups = led((1, 2))
    start(groups, 1, life=2)
    start(groups, 2, life=2)
    return groups


def recovery(groups: StoreGroups, replica: int = 3, life: int = 1) -> RecoverGroup:
    live = (says(1, 0, 0, life=2), says(3, life=life))
    return RecoverGroup(NAME, replica, group_of(groups).set_epoch, NAME, live)


def test_nobody_leads_until_an_operator_decides() -> None:
    groups = lost()
    live = (says(1, life=2), says(2, life=2), says(3))
    assert groups.apply(ElectLeader(NAME, live)).refusal is GroupRefusal.NO_CANDIDATE
    before = group_of(groups)
    answer = groups.apply(recovery(groups))
    assert answer.refusal is None
    after = group_of(groups)
    assert (after.leader, after.members) == (3, (member(3),))
    assert (after.leader_epoch, after.set_epoch) == (before.leader_epoch + 1, before.set_epoch + 1)
    assert groups.apply(ElectLeader(NAME, (says(1, 9, 999, life=2), says(3)))).refusal is GroupRefusal.LEADER_VALID


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"typed": "broker-b"}, GroupRefusal.NOT_TYPED),
        ({"typed": ""}, GroupRefusal.NOT_TYPED),
        ({"set_epoch": 1}, GroupRefusal.OLD_SET_EPOCH),
        ({"replica": 9}, GroupRefusal.NOT_A_REPLICA),
        ({"replica": 2}, GroupRefusal.NOT_ALIVE),
        ({"live": (says(3, life=2),)}, GroupRefusal.NOT_ALIVE),
        ({"group": "other"}, GroupRefusal.UNKNOWN_GROUP),
    ],
)
def test_a_recovery_that_is_not_certain_is_refused_and_changes_nothing(
    change: dict[str, object], refusal: GroupRefusal
) -> None:
    groups = lost()
    before = group_of(groups)
    assert groups.apply(replace(recovery(groups), **change)).refusal is refusal  # type: ignore[arg-type]
    assert group_of(groups) == before


def test_it_is_refused_while_a_member_is_there() -> None:
    groups = led((1, 2))
    start(groups, 1, life=2)
    change = replace(recovery(groups), live=(says(2), says(3)))
    assert groups.apply(change).refusal is GroupRefusal.MEMBER_COMES_BACK
    assert groups.apply(replace(change, live=(says(3),))).refusal is None, "the member is away, and the operator says for good"


def test_it_is_refused_while_a_log_goes_on_where_a_member_was() -> None:
    groups = led((1,))
    start(groups, 1, life=2, continues="log-1-1")
    change = replace(recovery(groups), live=(says(1, life=2), says(3)))
    assert groups.apply(change).refusal is GroupRefusal.MEMBER_COMES_BACK


def test_a_learner_is_not_recovered_to() -> None:
    groups = lost()
    start(groups, 3, learner=True)
    assert groups.apply(recovery(groups)).refusal is GroupRefusal.NOT_A_REPLICA


def test_before_the_first_election_there_is_nothing_to_give_up() -> None:
    groups = StoreGroups()
    groups = led((1,))
    found = replace(group_of(groups), members=(), leader=0)
    groups = StoreGroups(iter((found,)))
    assert groups.apply(recovery(groups)).refusal is GroupRefusal.MEMBER_COMES_BACK


def forgotten() -> StoreGroups:
    """Controllers that came back empty: three replicas have registered the logs that they had under the ones before."""
    groups = registered()
    for number, epoch, position in ((1, 7, 2_000), (2, 7, 900), (3, 0, 0)):
        groups.apply(
            RegisterReplica(NAME, CLUSTER, number, f"h{number}:1", incarnation(number), epoch=epoch, position=position)
        )
    return groups


def test_an_operator_says_with_whose_log_a_forgotten_group_goes_on_and_its_epoch_is_new() -> None:
    groups = forgotten()
    assert group_of(groups).is_forgotten
    assert groups.apply(FoundGroup(NAME, 1, (says(1), says(2, epoch=9)))).refusal is None
    group = group_of(groups)
    assert (group.leader, group.members, group.leader_epoch) == (1, (member(1),), 10), "above every log's epoch"
    assert not group.is_forgotten
    assert groups.apply(FoundGroup(NAME, 2, (says(2),))).refusal is GroupRefusal.HAS_MEMBERS
    assert group_of(groups) == group


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (FoundGroup(NAME, 9, (says(1),)), GroupRefusal.NOT_A_REPLICA),
        (FoundGroup(NAME, 2, (says(1),)), GroupRefusal.NOT_ALIVE),
        (FoundGroup(NAME, 2, (says(2, life=2),)), GroupRefusal.NOT_ALIVE),
        (FoundGroup("other", 1, (says(1),)), GroupRefusal.UNKNOWN_GROUP),
    ],
)
def test_who_cannot_lead_does_not_begin_a_group(change: FoundGroup, refusal: GroupRefusal) -> None:
    groups = forgotten()
    before = group_of(groups)
    assert groups.apply(change).refusal is refusal
    assert group_of(groups) == before


def test_a_learner_does_not_begin_a_group() -> None:
    groups = forgotten()
    start(groups, 2, learner=True)
    assert groups.apply(FoundGroup(NAME, 2, (says(2),))).refusal is GroupRefusal.NOT_A_REPLICA


def test_an_epoch_that_nobody_can_have_is_not_believed() -> None:
    """Epochs are 64 bits: after the largest one no leader could be elected."""
    groups = forgotten()
    assert groups.apply(FoundGroup(NAME, 1, (says(1), says(2, epoch=NUMBER_MAX)))).refusal is None
    assert group_of(groups).leader_epoch == 8 < EPOCH_SAID_MAX


def test_who_recovers_with_a_later_log_leads_above_its_epoch() -> None:
    """A replica without records has founded the group anew, in an epoch below those of the others' logs."""
    groups = forgotten()
    groups.apply(ElectLeader(NAME, (says(3, 0, 0),), asker=3))
    assert (group_of(groups).leader, group_of(groups).leader_epoch) == (3, 1)
    change = RecoverGroup(NAME, 1, group_of(groups).set_epoch, NAME, (says(1, epoch=7),))
    assert groups.apply(change).refusal is None
    assert (group_of(groups).leader, group_of(groups).leader_epoch) == (1, 8)


def test_an_operator_promotes_a_learner_when_no_member_is_there() -> None:
    groups = led((1, 2))
    start(groups, 3, learner=True)
    group = group_of(groups)
    alive = (says(3, epoch=1, position=80),)
    promote = PromoteLearner(NAME, 3, group.set_epoch, NAME, alive)
    assert groups.apply(replace(promote, live=(says(2), *alive))).refusal is GroupRefusal.MEMBER_COMES_BACK
    assert groups.apply(RecoverGroup(NAME, 3, group.set_epoch, NAME, alive)).refusal is GroupRefusal.NOT_A_REPLICA
    assert groups.apply(replace(promote, typed="other")).refusal is GroupRefusal.NOT_TYPED
    assert groups.apply(replace(promote, replica=2, live=())).refusal is GroupRefusal.NOT_A_REPLICA, "it is no learner"
    assert groups.apply(replace(promote, live=())).refusal is GroupRefusal.NOT_ALIVE
    assert groups.apply(promote).refusal is None
    group = group_of(groups)
    assert (group.leader, group.leader_epoch, group.in_sync) == (3, 2, (3,))
    assert not group.replicas[2].learner
    again = RegisterReplica(NAME, CLUSTER, 3, "h3:1", incarnation(3), True)
    assert groups.apply(again).refusal is GroupRefusal.LAST_MEMBER, "its settings are still those of a learner"
