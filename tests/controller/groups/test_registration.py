"""Ids, registration, incarnations and removal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.groups.groups import StoreGroups
from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import refused
from domain.controller.answer import GroupRefusal
from domain.controller.change import AlterSet, ApplyId, CleanReplicas, ElectLeader, GroupChange, RegisterReplica, SetMinInSync
from domain.controller.group import GROUPS_MAX, NUMBER_MAX, REPLICAS_MAX, UNKNOWN
from tests.controller.groups.sample import CLUSTER, NAME, group_of, incarnation, led, member, members, registered, says, start


@pytest.fixture
def groups() -> StoreGroups:
    return led((1, 2))


def test_ids_ascend_from_one_and_are_not_given_twice() -> None:
    groups = StoreGroups()
    assert groups.next_id(NAME) == 1
    assert groups.apply(ApplyId(NAME, CLUSTER, 1, "node-1", "h:1")).refusal is None
    assert groups.next_id(NAME) == 2
    assert groups.apply(ApplyId(NAME, CLUSTER, 2, "node-2", "h:2")).refusal is None
    assert groups.apply(CleanReplicas(NAME, (2,))).refusal is None
    assert groups.next_id(NAME) == 3
    assert groups.apply(ApplyId(NAME, CLUSTER, 2, "node-2", "h:2")).refusal is GroupRefusal.ID_TAKEN


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (ApplyId(NAME, CLUSTER, 2, "node-2", "h2:10911"), None),
        (ApplyId(NAME, CLUSTER, 2, "another", "h2:10911"), GroupRefusal.ID_TAKEN),
        (ApplyId(NAME, CLUSTER, 5, "node-5", "h5:10911"), GroupRefusal.ID_TAKEN),
        (ApplyId(NAME, "another", 4, "node-4", "h4:10911"), GroupRefusal.ID_TAKEN),
        (ApplyId("another", CLUSTER, 2, "node-2", "h2:10911"), GroupRefusal.ID_TAKEN),
        (RegisterReplica("another", CLUSTER, 1, "h:1", "log"), GroupRefusal.NOT_REGISTERED),
        (RegisterReplica(NAME, "another", 1, "h:1", "log"), GroupRefusal.NOT_REGISTERED),
        (RegisterReplica(NAME, CLUSTER, 4, "h:1", "log"), GroupRefusal.NOT_REGISTERED),
        (ElectLeader("another"), GroupRefusal.NOT_REGISTERED),
        (CleanReplicas("another"), GroupRefusal.UNKNOWN_GROUP),
        (SetMinInSync("another", 1), GroupRefusal.UNKNOWN_GROUP),
        (ApplyId("", CLUSTER, 1, "node", "h:1"), GroupRefusal.INVALID),
        (ApplyId(NAME, CLUSTER, 0, "node", "h:1"), GroupRefusal.INVALID),
        (ApplyId(NAME, CLUSTER, 4, "", "h:1"), GroupRefusal.INVALID),
        (ApplyId(NAME, CLUSTER, 4, "é" * 128, "h:1"), GroupRefusal.INVALID),
        (ApplyId(NAME, CLUSTER, 4, "\ud800", "h:1"), GroupRefusal.INVALID),
        (RegisterReplica(NAME, CLUSTER, 1, "h:1", ""), GroupRefusal.INVALID),
        (RegisterReplica(NAME, CLUSTER, 1, "h:1", "log", position=NUMBER_MAX + 1), GroupRefusal.INVALID),
        (ElectLeader(NAME, (says(1, position=UNKNOWN - 1),)), GroupRefusal.INVALID),
        (CleanReplicas(NAME, tuple(range(1, REPLICAS_MAX + 2))), GroupRefusal.INVALID),
        (SetMinInSync(NAME, REPLICAS_MAX + 1), GroupRefusal.INVALID),
    ],
)
def test_what_is_refused_changes_nothing(change: GroupChange, refusal: GroupRefusal | None) -> None:
    groups = registered()
    before = list(groups)
    answer = groups.apply(change)
    assert answer.refusal is refusal
    assert answer.group == groups.group(change.group)
    assert list(groups) == before


def test_groups_and_replicas_have_a_limit() -> None:
    groups = registered(REPLICAS_MAX)
    change = ApplyId(NAME, CLUSTER, REPLICAS_MAX + 1, "node", "h:1")
    assert groups.apply(change).refusal is GroupRefusal.TOO_MANY
    for number in range(1, GROUPS_MAX):
        assert groups.apply(ApplyId(f"g{number}", CLUSTER, 1, "node", "h:1")).refusal is None
    assert groups.apply(ApplyId("more", CLUSTER, 1, "node", "h:1")).refusal is GroupRefusal.TOO_MANY
    assert len(groups) == GROUPS_MAX


def test_registration_renews_address_and_position() -> None:
    groups = registered()
    groups.apply(RegisterReplica(NAME, CLUSTER, 2, "new:1", incarnation(2), epoch=3, position=70))
    found = group_of(groups).replica(2)
    assert found is not None
    assert (found.address, found.epoch, found.position, found.learner) == ("new:1", 3, 70, False)
    groups.apply(RegisterReplica(NAME, CLUSTER, 2, "new:1", incarnation(2)))
    assert group_of(groups).replica(2) == found, "a position that is not said again stays for the same log"
    groups.apply(RegisterReplica(NAME, CLUSTER, 2, "new:1", incarnation(2, 2)))
    found = group_of(groups).replica(2)
    assert found is not None
    assert (found.epoch, found.position) == (UNKNOWN, UNKNOWN)


def test_a_leader_that_starts_again_is_deposed(groups: StoreGroups) -> None:
    start(groups, 1)
    group = group_of(groups)
    assert (group.leader, group.leader_epoch, group.members) == (0, 2, members(1, 2))


def test_a_follower_that_starts_again_changes_nothing_for_the_leader(groups: StoreGroups) -> None:
    before = group_of(groups)
    start(groups, 2)
    assert group_of(groups) == before


def test_another_incarnation_is_not_in_sync_and_the_set_keeps_the_old_one(groups: StoreGroups) -> None:
    start(groups, 2, life=2)
    group = group_of(groups)
    found = group.replica(2)
    assert found is not None
    assert group.members == members(1, 2)
    assert not group.is_in_sync(found)
    assert group.is_below_strength


@pytest.mark.parametrize(
    ("continues", "continues_log"),
    [(incarnation(2), incarnation(2)), ("", ""), ("something", "")],
    ids=["a power failure", "a wiped disk", "a log that it did not have"],
)
def test_a_log_that_goes_on_from_a_member_is_its_heir(groups: StoreGroups, continues: str, continues_log: str) -> None:
    start(groups, 2, life=2, continues=continues)
    found = group_of(groups).replica(2)
    assert found is not None
    assert found.continues_log == continues_log


def test_an_heir_of_an_heir_is_one_and_a_wiped_disk_ends_it(groups: StoreGroups) -> None:
    start(groups, 2, life=2, continues=incarnation(2))
    start(groups, 2, life=3, continues=incarnation(2, 2))
    assert group_of(groups).replicas[1].continues_log == incarnation(2)
    start(groups, 2, life=4)
    start(groups, 2, life=5, continues=incarnation(2, 4))
    assert group_of(groups).replicas[1].continues_log == ""


def test_a_member_that_becomes_a_learner_leaves_the_set(groups: StoreGroups) -> None:
    start(groups, 2, learner=True)
    group = group_of(groups)
    assert (group.members, group.set_epoch, group.leader) == (members(1), 3, 1)
    last = RegisterReplica(NAME, CLUSTER, 1, "h1:10911", incarnation(1), learner=True)
    assert groups.apply(last).refusal is GroupRefusal.LAST_MEMBER
    assert group_of(groups) == group


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (CleanReplicas(NAME), GroupRefusal.ALIVE),
        (CleanReplicas(NAME, (3,), live=(3,)), GroupRefusal.ALIVE),
        (CleanReplicas(NAME, (1, 2)), GroupRefusal.LAST_MEMBER),
        (CleanReplicas(NAME, (1, 2), even_living=True), GroupRefusal.LAST_MEMBER),
        (CleanReplicas(NAME, (9,)), None),
    ],
)
def test_a_removal_that_is_refused_changes_nothing(
    groups: StoreGroups, change: CleanReplicas, refusal: GroupRefusal | None
) -> None:
    before = group_of(groups)
    assert groups.apply(change).refusal is refusal
    assert group_of(groups) == before


def test_a_member_that_is_removed_leaves_the_set_and_a_leader_its_office(groups: StoreGroups) -> None:
    assert groups.apply(CleanReplicas(NAME, (2,), live=(1, 3))).refusal is None
    group = group_of(groups)
    assert (group.members, group.set_epoch, group.leader, group.leader_epoch) == (members(1), 3, 1, 1)
    groups = led((1, 2))
    assert groups.apply(CleanReplicas(NAME, (1,), live=(1,), even_living=True)).refusal is None
    group = group_of(groups)
    assert (group.members, group.set_epoch, group.leader, group.leader_epoch) == (members(2), 3, 0, 2)
    assert [each.id for each in group.replicas] == [2, 3]


def test_a_group_that_comes_back_has_higher_epochs_than_before(groups: StoreGroups) -> None:
    answer = groups.apply(CleanReplicas(NAME, even_living=True))
    assert (answer.refusal, answer.group, len(groups), groups.floor) == (None, None, 0, 2)
    groups.apply(ApplyId(NAME, CLUSTER, 1, "node-1", "h:1"))
    start(groups, 1)
    groups.apply(ElectLeader(NAME, asker=1))
    group = group_of(groups)
    assert (group.leader, group.leader_epoch, group.set_epoch) == (1, 3, 3)


@pytest.mark.parametrize(("replicas", "least"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_min_in_sync_follows_the_replicas_unless_it_is_set(replicas: int, least: int) -> None:
    groups = registered(replicas)
    assert group_of(groups).min_in_sync == least
    start(groups, replicas, learner=True)
    assert group_of(groups).min_in_sync == (1 if replicas <= 3 else 2), "learners are not counted"
    assert groups.apply(SetMinInSync(NAME, 3)).refusal is None
    assert group_of(groups).min_in_sync == 3
    groups.apply(SetMinInSync(NAME, 0))
    assert group_of(groups).least == 0
    assert member(1) not in group_of(groups).members


def process(run: str, *before: str, incarnation_of: int = 1) -> RegisterReplica:
    """A process of replica 1 registers."""
    return RegisterReplica(NAME, CLUSTER, 1, f"{run}:1", incarnation(incarnation_of), run=run, runs_before=before)


def test_of_a_directory_and_its_copy_the_one_that_registers_first_goes_on(groups: StoreGroups) -> None:
    assert groups.apply(process("a")).refusal is None
    assert groups.apply(process("b", "a")).refusal is None, "the next start of the same directory"
    before = group_of(groups)
    assert groups.apply(process("c", "a")).refusal is GroupRefusal.COPIED, "a copy that was made before b ran"
    assert group_of(groups) == before
    assert groups.apply(process("b", "a")).refusal is None, "a registration whose answer was lost"
    assert groups.apply(process("e", "b", "c", "d")).refusal is None, "c and d died before they had registered"
    assert groups.apply(process("x")).refusal is GroupRefusal.COPIED
    found = group_of(groups).replica(1)
    assert found is not None
    assert (found.run, found.address) == ("e", "e:1")


def test_a_directory_whose_log_is_gone_registers_and_one_that_says_it_continues_the_log_does_not(groups: StoreGroups) -> None:
    """After a power failure a log has another identity, which continues the one before: a copy elsewhere says so, too."""
    assert groups.apply(process("a")).refusal is None
    wiped = process("b", incarnation_of=9)
    assert groups.apply(replace(wiped, continues=incarnation(1))).refusal is GroupRefusal.COPIED
    assert groups.apply(wiped).refusal is None
    found = group_of(groups).replica(1)
    assert found is not None
    assert (found.run, found.continues_log) == ("b", "")


def test_a_process_of_a_version_before_names_no_run_and_registers(groups: StoreGroups) -> None:
    assert groups.apply(process("a")).refusal is None
    assert groups.apply(process("")).refusal is None
    assert groups.apply(process("z")).refusal is None, "it was upgraded again"


def lost(replica: int, address: str = "", dead: tuple[int, ...] = (3,), cluster: str = CLUSTER) -> ApplyId:
    """A node with an empty directory applies for the id of the replica that was at its address."""
    return ApplyId(NAME, cluster, replica, "anew", address or f"h{replica}:10911", dead)


def test_a_node_that_has_lost_its_directory_gets_its_id_back(groups: StoreGroups) -> None:
    before = group_of(groups)
    assert groups.apply(lost(3)).refusal is None
    start(groups, 3, life=2)
    group = group_of(groups)
    replica = group.replica(3)
    assert replica is not None
    assert (replica.node, replica.incarnation) == ("anew", incarnation(3, 2))
    assert group.members == before.members, "it is no member: it has the log to get first"
    assert len(group.replicas) == 3
    assert groups.apply(ApplyId(NAME, CLUSTER, 3, "node-3", "h3:10911")).refusal is GroupRefusal.ID_TAKEN, "the lost directory"
    assert groups.apply(ApplyId(NAME, CLUSTER, 4, "node-3", "h3:10911")).refusal is None, "comes back as another replica"


@pytest.mark.parametrize(
    "change",
    [
        lost(3, dead=()),
        lost(3, dead=(1, 2)),
        lost(3, address="h9:10911"),
        lost(2, dead=(1, 2, 3)),
        lost(1, dead=(1, 2, 3)),
        lost(3, cluster="another"),
    ],
    ids=["alive", "others are dead", "another address", "a member", "the leader", "another cluster"],
)
def test_an_id_whose_log_may_be_needed_or_is_elsewhere_is_never_another_nodes(groups: StoreGroups, change: ApplyId) -> None:
    before = group_of(groups)
    assert groups.apply(change).refusal is GroupRefusal.ID_TAKEN
    assert group_of(groups) == before


def test_a_lost_log_that_was_in_the_set_wins_no_election_under_the_same_id(groups: StoreGroups) -> None:
    """The set names the log that is lost, until the leader has left it out."""
    assert groups.apply(AlterSet(NAME, 1, 1, 2, members(1))).refusal is None
    assert groups.apply(lost(2, dead=(2, 3))).refusal is None
    start(groups, 2, life=2)
    assert groups.apply(ElectLeader(NAME, (says(2, life=2),))).refusal is GroupRefusal.NO_CANDIDATE


def test_a_registration_that_comes_late_from_a_process_before_is_refused() -> None:
    """Power was lost since, and the log that is registered continues this one: it would not be known any more."""
    groups = led((1, 2))
    start(groups, 2, life=2, continues=incarnation(2))
    late = RegisterReplica(NAME, CLUSTER, 2, "h2:10911", incarnation(2), position=100)
    beats = Heartbeats(0)
    assert refused(late, group_of(groups), beats, 1) is GroupRefusal.COPIED
    assert refused(replace(late, incarnation=incarnation(2, 2)), group_of(groups), beats, 1) is None
