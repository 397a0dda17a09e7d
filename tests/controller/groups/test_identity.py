"""Identities of store groups: what is of another group of the same name changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.groups import command
from controller.groups.groups import StoreGroups
from controller.groups.heartbeats import Heartbeats
from controller.groups.limits import is_within
from controller.groups.replica_reports import informed, refused
from domain.controller.answer import GroupRefusal
from domain.controller.change import ApplyId, ElectLeader, FoundGroup, RecoverGroup, RegisterReplica
from domain.controller.group import EPOCH_SAID_MAX, NOTHING_SEEN, StateSeen
from domain.controller.replica_word import ReplicaWord
from tests.controller.groups.sample import CLUSTER, NAME, group_of, incarnation, led, member, registered, says, start

OURS, FRESH, THEIRS = "6f757273", "6672657368", "746865697273"


def register(replica: int, identity: str = "", fresh: str = "", life: int = 1, epoch: int = 1) -> RegisterReplica:
    return RegisterReplica(
        NAME, CLUSTER, replica, f"h{replica}:1", incarnation(replica, life), False, epoch, 100, identity=identity, fresh=fresh
    )


def named() -> StoreGroups:
    """A group with an identity; replicas 1 and 2 are in sync, and 1 leads in epoch 1."""
    groups = led((1, 2))
    assert groups.apply(register(2, fresh=OURS)).refusal is None
    assert group_of(groups).identity == OURS
    return groups


def test_the_first_election_gives_the_identity_that_was_drawn() -> None:
    groups = registered()
    assert group_of(groups).identity == ""
    assert groups.apply(ElectLeader(NAME, (says(1),), asker=1, fresh=OURS)).refusal is None
    assert group_of(groups).identity == OURS
    groups.apply(ElectLeader(NAME, (says(1),), designated=1, fresh=FRESH))
    groups.apply(register(3, fresh=FRESH))
    assert group_of(groups).identity == OURS, "it is given once"


def test_a_group_of_the_version_before_gets_one_at_a_registration_or_an_election() -> None:
    for change in (register(3, fresh=FRESH), ElectLeader(NAME, (says(2),), fresh=FRESH)):
        groups = led((1, 2))
        assert groups.apply(change).refusal is None
        assert group_of(groups).identity == FRESH


def test_without_a_drawn_identity_everything_is_as_in_the_version_before() -> None:
    """A controller of the version before applies the same commands, and must come to the same state."""
    groups = led((1, 2))
    for change in (register(3), ElectLeader(NAME, (says(2),)), RecoverGroup(NAME, 3, 3, NAME, (says(3),))):
        assert command.encode(change)[0] == command.VERSION
        groups.apply(change)
    assert group_of(groups).identity == ""
    groups.apply(register(1, epoch=9))
    refusal = groups.apply(FoundGroup(NAME, 1, (says(1, 9),))).refusal
    assert refusal is GroupRefusal.HAS_MEMBERS


def test_a_replica_of_another_group_does_not_register_and_changes_nothing() -> None:
    groups = named()
    before = group_of(groups)
    for life in (1, 2):
        assert groups.apply(register(2, THEIRS, life=life)).refusal is GroupRefusal.OTHER_GROUP
    assert group_of(groups) == before
    assert groups.apply(register(2, OURS)).refusal is None
    assert groups.apply(register(3)).refusal is None, "a log without one says nothing: of a version before, or empty"


def test_a_group_with_members_takes_the_identity_of_a_log_that_it_knows_and_of_no_other() -> None:
    """Controllers restored from a copy older than the identity."""
    groups = led((1, 2))
    assert groups.apply(register(3, THEIRS, FRESH, life=2)).refusal is GroupRefusal.OTHER_GROUP
    assert group_of(groups).identity == ""
    assert groups.apply(register(2, OURS, FRESH)).refusal is None
    assert group_of(groups).identity == FRESH or group_of(groups).identity == OURS
    assert group_of(groups).identity == OURS


def test_before_the_first_election_the_winner_decides_whose_group_it_is() -> None:
    groups = registered()
    for number, identity in ((1, THEIRS), (2, OURS)):
        assert groups.apply(register(number, identity)).refusal is None
    assert group_of(groups).identity == ""
    assert groups.apply(FoundGroup(NAME, 2, (says(2),), FRESH)).refusal is None
    assert group_of(groups).identity == OURS, "the files of its replicas stay valid"
    assert groups.apply(register(1, THEIRS)).refusal is GroupRefusal.OTHER_GROUP


def test_a_recovery_keeps_the_identity() -> None:
    groups = named()
    start(groups, 1, life=2)
    start(groups, 2, life=2)
    change = RecoverGroup(NAME, 3, group_of(groups).set_epoch, NAME, (says(3),))
    assert groups.apply(change).refusal is None
    assert group_of(groups).identity == OURS


@pytest.mark.parametrize("how", ["registered", "reported"])
def test_controllers_of_an_older_copy_give_no_epoch_again(how: str) -> None:
    """The copy knows epoch 1; replica 2 has records of epoch 7, which was given after the copy was made."""
    groups, beats = named(), Heartbeats(0)
    beats.heard(NAME, ReplicaWord(says(1, 1)), 3_000, "a", 1)
    beats.heard(NAME, ReplicaWord(says(2, 7 if how == "reported" else 1)), 3_000, "b", 1)
    if how == "registered":
        assert groups.apply(register(2, OURS, epoch=7)).refusal is None
    beats.closed("a", 2)
    assert beats.due(groups, 20_000) == []
    assert beats.due(groups, 3) == [], "nobody is elected by itself"
    for change in (ElectLeader(NAME, asker=2), ElectLeader(NAME, designated=2)):
        assert refused(change, group_of(groups), beats, 3) is GroupRefusal.FORGOTTEN
    found = informed(FoundGroup(NAME, 2, fresh=FRESH), group_of(groups), beats, 3)
    assert groups.apply(found).refusal is None
    after = group_of(groups)
    assert (after.leader, after.leader_epoch, after.members, after.identity) == (2, 8, (member(2),), OURS)
    assert not after.is_forgotten


def test_an_older_copy_is_known_by_its_own_leader_that_registers_first() -> None:
    """Its registration ends its leadership, which takes an epoch: the one that was given after the copy was made."""
    groups = named()
    assert groups.apply(register(1, OURS, epoch=2)).refusal is None
    assert (group_of(groups).leader, group_of(groups).leader_epoch) == (0, 2)
    assert group_of(groups).is_forgotten, "nobody leads in epoch 2, and a log has records of it"
    assert Heartbeats(0).due([group_of(groups)], 20_000) == []
    after = named()
    assert after.apply(register(1, OURS, epoch=1)).refusal is None
    assert not group_of(after).is_forgotten


def _left_out(seen: StateSeen) -> tuple[StoreGroups, Heartbeats]:
    """Replicas 1 and 3 have seen `seen`. All are alive; by the copy 1 and 2 are in sync."""
    groups, beats = named(), Heartbeats(0)
    assert groups.apply(register(3, OURS)).refusal is None
    for number in (1, 2, 3):
        report = replace(says(number, 1), seen=NOTHING_SEEN if number == 2 else seen)
        beats.heard(NAME, ReplicaWord(report), 3_000, f"of {number}", 1)
    return groups, beats


@pytest.mark.parametrize("dead", [(1,), (1, 3)])
def test_an_older_copy_is_known_by_a_change_of_the_set_that_replicas_have_seen(dead: tuple[int, ...]) -> None:
    """Also when those that have seen it are dead by now: replica 2, which was left out since, may lack records."""
    known = StateSeen(1, group_of(named()).set_epoch)
    for seen, is_older in ((known, False), (known._replace(set_epoch=known.set_epoch + 1), True)):
        groups, beats = _left_out(seen)
        assert not group_of(groups).is_forgotten, "no log is of a later epoch"
        for number in dead:
            beats.closed(f"of {number}", 2)
        assert beats.due(groups, 3_000) == ([] if is_older else [group_of(groups)])
        found = refused(ElectLeader(NAME, designated=2), group_of(groups), beats, 3)
        assert found is (GroupRefusal.FORGOTTEN if is_older else None)
        change = informed(FoundGroup(NAME, 2, fresh=FRESH), group_of(groups), beats, 3)
        assert groups.apply(change).refusal is (None if is_older else GroupRefusal.HAS_MEMBERS)
        if is_older:
            after = group_of(groups)
            assert (after.leader, after.members, after.identity) == (2, (member(2),), OURS)
            assert not after.lacks_election(beats.reports(after)), "its epoch is above what was seen"


def test_what_was_seen_proves_nothing_that_is_known_or_of_another_log() -> None:
    group = group_of(named())
    at = StateSeen(group.leader_epoch, group.set_epoch)
    for seen in (NOTHING_SEEN, at, StateSeen(at.leader_epoch - 1, at.set_epoch + 9), StateSeen(EPOCH_SAID_MAX + 1, 9)):
        assert not group.lacks_election([replace(says(2, 1), seen=seen)]), seen
    newer = StateSeen(at.leader_epoch, at.set_epoch + 1)
    assert group.lacks_election([replace(says(2, 1), seen=newer)])
    assert not group.lacks_election([replace(says(2, 1, life=2), seen=newer)]), "a log that is not registered"
    deposed = replace(group, leader=0, leader_epoch=at.leader_epoch + 1)
    assert not deposed.lacks_election([replace(says(2, 1), seen=at)])
    assert deposed.lacks_election([replace(says(2, 1), seen=newer)])
    assert not group_of(registered()).lacks_election([replace(says(2, 0), seen=newer)]), "before the first election"


def test_a_log_that_proves_nothing_stops_no_election() -> None:
    """A node of another cluster, of a version without identities, whose newest epoch is a high one."""
    groups = named()
    assert groups.apply(register(3, epoch=90, life=2)).refusal is None
    assert not group_of(groups).is_forgotten
    assert groups.apply(register(3, OURS, epoch=EPOCH_SAID_MAX + 1, life=2)).refusal is None
    assert not group_of(groups).is_forgotten, "an epoch that nobody can have is not believed"
    assert groups.apply(register(3, OURS, epoch=90, life=2)).refusal is None
    assert group_of(groups).is_forgotten


def test_while_the_newest_election_is_known_no_operator_begins_a_group_anew() -> None:
    groups = named()
    before = group_of(groups)
    assert groups.apply(FoundGroup(NAME, 2, (says(2),), FRESH)).refusal is GroupRefusal.HAS_MEMBERS
    assert group_of(groups) == before


@pytest.mark.parametrize(
    "change",
    [register(1, OURS), register(1, fresh=FRESH), ElectLeader(NAME, fresh=FRESH), FoundGroup(NAME, 1, (says(1),), FRESH)],
)
def test_commands_with_an_identity_have_a_version_of_their_own(change: RegisterReplica | ElectLeader | FoundGroup) -> None:
    data = command.encode(change)
    assert data[0] == command.VERSION_WITH_IDENTITY
    assert command.decode(data) == change
    assert is_within(change)
    assert not is_within(replace(change, fresh="x" * 256))


def test_a_kind_has_no_version_in_which_nothing_of_it_is_new() -> None:
    data = command.encode(ApplyId(NAME, CLUSTER, 1, "node-1", "h:1"))
    for version in (0, command.VERSION_WITH_RUNS, command.VERSION_WITH_IDENTITY):
        with pytest.raises(ValueError, match="no command"):
            command.decode(bytes((version,)) + data[1:])
