"""The election that an operator decides, when no member of the SyncStateSet comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.groups.groups import StoreGroups
from domain.controller.answer import GroupRefusal
from domain.controller.change import ElectLeader, RecoverGroup
from tests.controller.groups.sample import NAME, group_of, led, member, says, start


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
