"""Changes over three controllers: what was answered is never lost, and nothing is said that is not known."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from controller.groups.snapshot import snapshot
from controller.member.member import ANSWER_MS, ControllerMember
from controller.raft.persisted import Persisted
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import AlterSet, ApplyId, ElectLeader, GroupChange, SetMinInSync
from domain.controller.peer import KEEPING_LEVEL
from domain.limits import MILLISECOND_NS
from tests.controller.groups.sample import CLUSTER, NAME, says
from tests.controller.groups.sample import members as in_sync
from tests.controller.member.stage import Node, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


def member_of(node: Node) -> ControllerMember:
    assert node.member is not None
    return node.member


def test_a_change_is_known_to_all_soon_after_its_answer(stage: Stage) -> None:
    stage.with_group()
    stage.clock.run_for(500)
    states = {snapshot(member_of(node).groups) for node in stage.nodes.values()}
    assert len(states) == 1
    group = member_of(stage.leader()).groups.group(NAME)
    assert group is not None
    assert (group.leader, group.leader_epoch) == (1, 1)


def test_who_does_not_lead_says_so_and_who_leads(stage: Stage) -> None:
    leader = stage.leader()
    stage.clock.run_for(500)
    other = next(node for node in stage.nodes.values() if node is not leader)
    [answer] = stage.ask(SetMinInSync(NAME, 2), other)
    assert answer is not None
    assert answer.refusal is GroupRefusal.NOT_LEADING
    assert member_of(other).leader == leader.number


@pytest.mark.parametrize("name", ["x" * 70_000, "\ud800"], ids=["longer than a text in a command", "not in UTF-8"])
def test_a_change_beyond_the_limits_is_refused_before_it_is_a_command(stage: Stage, name: str) -> None:
    leader = stage.leader()
    stage.clock.run_for(500)
    before = leader.storage.durable.entries
    [answer] = stage.ask(ApplyId(name, CLUSTER, 1, "node", "h:1"), leader)
    assert answer is not None
    assert answer.refusal is GroupRefusal.INVALID
    stage.clock.run_for(500)
    assert leader.storage.durable.entries == before


@pytest.mark.parametrize("seed", range(20))
def test_what_was_answered_survives_the_leader(seed: int) -> None:
    stage = Stage(seed=seed)
    stage.with_group()
    first = stage.leader()
    first.kill()
    second = stage.leader()
    assert second is not first
    group = member_of(second).groups.group(NAME)
    assert group is not None
    assert group.leader == 1
    assert stage.change(AlterSet(NAME, 1, group.leader_epoch, group.set_epoch, in_sync(1, 2))).refusal is None
    first.start()
    stage.clock.run_for(3_000)
    second.kill()
    group = member_of(stage.leader()).groups.group(NAME)
    assert group is not None
    assert group.in_sync == (1, 2)


def test_all_controllers_lose_their_memory_at_once_and_nothing_that_was_answered(stage: Stage) -> None:
    stage.with_group()
    for node in stage.nodes.values():
        node.kill()
    for node in stage.nodes.values():
        node.start()
    leader = member_of(stage.leader())
    done: list[GroupRefusal | None] = []
    leader.read(done.append)
    stage.clock.run_until(lambda: bool(done))
    assert done == [None]
    group = leader.groups.group(NAME)
    assert group is not None
    assert group.leader == 1


def test_of_a_change_whose_fate_is_not_known_nothing_is_said(stage: Stage) -> None:
    """A refusal would let a store group's leader believe that the SyncStateSet has not grown, and acknowledge without it."""
    stage.with_group()
    leader = stage.leader()
    group = member_of(leader).groups.group(NAME)
    assert group is not None
    stage.isolate(leader.number)
    answers = stage.ask(AlterSet(NAME, 1, group.leader_epoch, group.set_epoch, in_sync(1, 2)), leader)
    stage.clock.run_for(ANSWER_MS - 500)
    assert answers == []
    stage.clock.run_for(1_000)
    assert answers == [None]


def test_a_change_that_another_leader_has_overwritten_is_not_answered_with_that_one(stage: Stage) -> None:
    stage.with_group()
    old = stage.leader()
    stage.isolate(old.number)
    lost = stage.ask(SetMinInSync(NAME, 3), old)
    stage.clock.run_until(lambda: any(node is not old and node.member is not None and node.member.leads
                                      for node in stage.nodes.values()), 10_000)  # fmt: skip
    assert stage.change(SetMinInSync(NAME, 2)).refusal is None
    stage.net.blocked.clear()
    stage.clock.run_for(5_000)
    assert lost == [None]
    for node in stage.nodes.values():
        group = member_of(node).groups.group(NAME)
        assert group is not None
        assert group.least == 2


def test_a_read_at_a_leader_that_nobody_hears_is_not_answered_with_old_state(stage: Stage) -> None:
    stage.with_group()
    leader = stage.leader()
    stage.isolate(leader.number)
    done: list[GroupRefusal | None] = []
    member_of(leader).read(done.append)
    stage.clock.run_for(ANSWER_MS + 500)
    assert done == [GroupRefusal.NOT_LEADING]


def test_who_was_away_for_longer_than_the_log_reaches_gets_the_state() -> None:
    stage = Stage(entries_kept=20)
    stage.with_group()
    leader = stage.leader()
    away = next(node for node in stage.nodes.values() if node is not leader)
    away.kill()
    for least in range(100):
        assert stage.change(SetMinInSync(NAME, 1 + least % 3)).refusal is None
    away.start()
    stage.clock.run_for(3_000)
    assert snapshot(member_of(away).groups) == snapshot(member_of(stage.leader()).groups)
    assert away.storage.durable.snapshot.index > 90


def test_nothing_is_answered_before_it_is_on_the_disks_of_a_majority(stage: Stage) -> None:
    leader = stage.leader()
    held: dict[int, list[Callable[[], None]]] = {node.number: [] for node in stage.nodes.values() if node is not leader}
    for number, steps in held.items():
        stage.nodes[number].storage.later = steps.append
    answers = stage.ask(ApplyId(NAME, CLUSTER, 1, "node-1", "h1:10911"), leader)
    stage.clock.run_for(300)
    assert answers == []
    assert all(held.values())
    assert member_of(leader).leads, "nothing stands still meanwhile"
    steps = next(iter(held.values()))
    for _ in range(20):
        while steps:
            steps.pop(0)()
        stage.clock.run_for(20)
    assert [answer is not None and answer.refusal is None for answer in answers] == [True]


def test_a_member_whose_disk_fails_takes_part_no_more_and_says_why(stage: Stage) -> None:
    leader = stage.leader()

    def fail() -> None:
        raise OSError(5, "Input/output error")

    leader.storage.sync = fail  # type: ignore[method-assign]
    answers = stage.ask(ApplyId(NAME, CLUSTER, 1, "node-1", "h1:10911"), leader)
    stage.clock.run_for(10)
    assert answers == [None]
    assert "Input/output error" in member_of(leader).failure
    stage.clock.run_for(5_000)
    assert stage.leader() is not leader


FULL = pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])


def full(node: Node, number: int, times: int) -> None:
    """The next `times` syncs of this node find no room."""
    own, left = type(node.storage).sync, [times]

    def sync() -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        own(node.storage)

    node.storage.sync = sync  # type: ignore[method-assign]


@FULL
@pytest.mark.parametrize("leading", [False, True])
def test_a_member_whose_disk_was_full_takes_part_again_by_itself(stage: Stage, number: int, leading: bool) -> None:
    stage.with_group()
    node = next(each for each in stage.nodes.values() if (each is stage.leader()) == leading)
    full(node, number, 30)
    answers = stage.ask(SetMinInSync(NAME, 2))
    stage.clock.run_for(10_000)
    assert os.strerror(number) in member_of(node).failure
    assert "by itself when" in member_of(node).failure
    assert not member_of(node).leads
    assert answers == ([None] if leading else [answers[0]])
    assert stage.leader() is not node
    assert stage.change(SetMinInSync(NAME, 3)).refusal is None, "the others are a majority"
    stage.clock.run_for(25_000)
    assert member_of(node).failure == ""
    assert snapshot(member_of(node).groups) == snapshot(member_of(stage.leader()).groups)
    next(each for each in stage.nodes.values() if each is not node).kill()
    assert stage.change(SetMinInSync(NAME, 1)).refusal is None, "it votes"


def test_controllers_whose_disks_were_all_full_go_on_with_what_was_answered(stage: Stage) -> None:
    stage.with_group()
    assert stage.change(SetMinInSync(NAME, 2)).refusal is None
    for node in stage.nodes.values():
        full(node, errno.ENOSPC, 20)
    assert stage.ask(SetMinInSync(NAME, 3)) == []
    stage.clock.run_for(60_000)
    assert [member_of(node).failure for node in stage.nodes.values()] == [""] * 3
    group = member_of(stage.leader()).groups.group(NAME)
    assert group is not None
    assert group.least in (2, 3)
    assert stage.change(SetMinInSync(NAME, 1)).refusal is None


def test_what_a_member_without_room_hears_meanwhile_costs_nothing(stage: Stage) -> None:
    """It is as one that is paused: what would be written later does not grow with the time that it has to wait."""
    node = stage.leader()
    full(node, errno.ENOSPC, 1_000)
    stage.ask(ApplyId(NAME, CLUSTER, 1, "node-1", "h1:10911"), node)
    stage.clock.run_for(3_000)
    before = len(node.storage.pending)
    for least in range(50):
        stage.ask(SetMinInSync(NAME, 1 + least % 3))
        stage.clock.run_for(5_000)
    assert len(node.storage.pending) == before
    assert member_of(node).failure


def test_a_member_with_a_damaged_log_says_so_and_never_leads() -> None:
    stage = Stage()
    damaged = stage.nodes[3]
    damaged.kill()
    damaged.storage.durable = Persisted(damage="raft/log: 40 bytes at 1,024 fail their checksum")
    damaged.start()
    assert "checksum" in member_of(damaged).failure
    stage.nodes[1].kill()
    stage.clock.run_for(20_000)
    assert not any(node.member is not None and node.member.leads for node in stage.nodes.values())


def test_a_change_of_a_later_version_ends_every_older_member_with_what_to_do(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    leader = member_of(stage.leader())
    leader._raft.propose(b"\x01\x63 of a later version")
    leader._mark()
    stage.clock.run_for(2_000)
    for node in stage.nodes.values():
        assert "a command in the log has version 1 and kind 99: a later version has written it" in member_of(node).failure
    assert "leave the files where they are" in caplog.text


def test_bytes_that_are_no_message_cost_nothing(stage: Stage) -> None:
    leader = member_of(stage.leader())
    for data in (b"", b"\x01", b"\xff" * 100):
        leader.receive(data)
    assert leader.unread == 3
    assert leader.leads


def test_a_store_group_whose_leader_is_heard_no_more_gets_another(stage: Stage) -> None:
    stage.with_group()
    group = member_of(stage.leader()).groups.group(NAME)
    assert group is not None
    assert stage.change(AlterSet(NAME, 1, group.leader_epoch, group.set_epoch, in_sync(1, 2))).refusal is None

    def leads() -> int:
        found = member_of(stage.leader()).groups.group(NAME)
        return found.leader if found is not None else 0

    stage.hear(says(1), says(2), says(3))
    stage.clock.run_for(1_000)
    assert leads() == 1
    stage.beat(says(2), says(3), until=lambda: leads() == 2)
    stage.clock.run_for(30_000)
    assert leads() == 2, "nobody is heard, so nobody could lead in its place"
    for _ in range(10):
        stage.hear(says(3))
        stage.clock.run_for(1_000)
        assert leads() == 2, "nobody else is in the SyncStateSet, and it may serve all the same"


@pytest.mark.parametrize("seed", range(5))
def test_who_begins_to_lead_elects_at_once_when_the_leader_of_a_store_group_is_dead(seed: int) -> None:
    stage = Stage(seed=seed)
    stage.with_group()
    assert stage.change(AlterSet(NAME, 1, 1, 1, in_sync(1, 2))).refusal is None
    for _ in range(4):
        stage.hear(says(1), says(2))
        stage.clock.run_for(250)
    for node in stage.nodes.values():
        node.heartbeats.closed(1, stage.clock.monotonic_ns() // MILLISECOND_NS)
    stage.leader().kill()
    while not (leading := [node for node in stage.nodes.values() if node.member is not None and node.member.leads]):
        stage.hear(says(2))
        stage.clock.run_for(10)
    stage.clock.run_for(100)
    group = member_of(leading[0]).groups.group(NAME)
    assert group is not None
    assert group.leader == 2


def test_an_election_that_nobody_wins_is_tried_again_when_somebody_can(stage: Stage) -> None:
    stage.with_group()
    stage.clock.run_for(30_000)
    assert stage.change(ElectLeader(NAME, (says(3),))).refusal is GroupRefusal.NO_CANDIDATE

    def leads() -> bool:
        group = member_of(stage.leader()).groups.group(NAME)
        return group is not None and group.leader == 1

    stage.beat(says(1), until=leads)


@pytest.mark.parametrize("leading", [False, True])
def test_who_lost_its_directory_comes_back_as_a_new_member_in_place_of_the_old_one(stage: Stage, leading: bool) -> None:
    stage.with_group()
    lost = next(node for node in stage.nodes.values() if (node is stage.leader()) == leading)
    lost.wipe(9)
    for _ in range(10):
        stage.clock.run_for(1_000)
        stage.revise()
    members = {node.node for node in stage.nodes.values()}
    assert set(member_of(stage.leader()).members) == members
    assert snapshot(member_of(lost).groups) == snapshot(member_of(stage.leader()).groups)
    other = next(node for node in stage.nodes.values() if node is not lost)
    other.kill()
    stage.clock.run_for(5_000)
    assert stage.change(SetMinInSync(NAME, 2)).refusal is None, "the newcomer votes"


def test_a_member_that_is_away_keeps_its_place(stage: Stage) -> None:
    stage.with_group()
    away = next(node for node in stage.nodes.values() if node is not stage.leader())
    away.kill()
    for _ in range(5):
        stage.clock.run_for(1_000)
        stage.revise()
    assert member_of(stage.leader()).members == (1, 2, 3)


class Noting(Stage):
    """A stage that notes what is applied."""

    noted: tuple[GroupChange, ...] = ()

    def applied(self, number: int, change: GroupChange, answer: GroupAnswer) -> None:
        self.noted += (change,)


def test_an_election_keeps_the_dead_only_where_all_controllers_can_read_it() -> None:
    stage = Noting()
    stage.with_group()
    stage.clock.run_for(500)
    for level, kept in ((KEEPING_LEVEL - 1, False), (KEEPING_LEVEL, True)):
        before, stage.level = len(stage.noted), level
        stage.change(ElectLeader(NAME, asker=1, keeps_dead=True))
        stage.clock.run_for(500)
        assert stage.noted[before:] == (ElectLeader(NAME, asker=1, keeps_dead=kept),) * 3
