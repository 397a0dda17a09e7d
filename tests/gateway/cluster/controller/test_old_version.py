"""A group with `acks`, of whose replicas one is of a version before: it states no fence, so that no election counts it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.slow_replicas.ports import Move
from domain.controller.answer import GroupRefusal
from domain.controller.change import AlterSet, ElectLeader, SetAcks
from domain.controller.group import UNKNOWN
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ChangeGroup, GroupChanged, HearReplica
from tests.controller.groups.sample import NAME, members, says
from tests.gateway.cluster.controller.beating import ALIVE_MS, BEAT_MS, Beating

OLD = 3


class Mixed(Beating):
    """Replica 1 leads, all three are in sync, and two confirm. Those of `old` were started with the version before since."""

    def __init__(self, *old: int) -> None:
        self.old: tuple[int, ...] = ()
        super().__init__()
        self.asked_for(AlterSet(NAME, 1, self.group().leader_epoch, self.group().set_epoch, members(1, 2, 3)))
        self.asked_for(SetAcks(NAME, 2))
        self.asked_for(AlterSet(NAME, 1, self.group().leader_epoch, self.group().set_epoch, members(1, 2, 3), acks=2))
        assert (self.group().leader, self.group().electing) == (1, 2)
        self.old = old
        self.pass_by(2 * BEAT_MS)

    def heartbeat(self, replica: int, parted: int = 0) -> None:
        """One heartbeat; a follower without a leader is fenced."""
        group = self.group()
        fence = UNKNOWN if replica in self.old else (0 if group.leader else group.leader_epoch)
        self.brokers[replica].ask(HearReplica(0, NAME, ReplicaWord(replace(says(replica), fence=fence)), ALIVE_MS))

    def asked_for(self, change: AlterSet | ElectLeader | SetAcks) -> GroupRefusal | None:
        """Ask for a change, and wait for its answer."""
        self.brokers[1].recorded.clear()
        self.brokers[1].ask(ChangeGroup(1, change))
        self.pass_by(2_000)
        answers = [each.answer.refusal for each in self.brokers[1].recorded if isinstance(each, GroupChanged)]
        assert len(answers) == 1
        return answers[0]


@pytest.mark.parametrize("old", [(OLD,), (2,), (1, 2)], ids=["who should lead", "a further one, who is not needed", "too many"])
def test_a_move_that_cannot_succeed_is_refused_before_the_leader_is_deposed(old: tuple[int, ...]) -> None:
    world = Mixed(*old)
    epoch = world.group().leader_epoch
    refusal = world.asked_for(ElectLeader(NAME, designated=OLD, leader_epoch=epoch))
    if old == (2,):
        assert (refusal, world.group().leader) == (None, OLD)
        return
    assert refusal is GroupRefusal.OLD_VERSION
    assert (world.group().leader, world.group().leader_epoch) == (1, epoch), "nobody was deposed"


def test_a_slow_leader_is_not_deposed_for_one_that_cannot_be_elected() -> None:
    world = Mixed(OLD)
    epoch, grey = world.group().leader_epoch, world.requests.grey
    assert grey is not None
    grey._carry_out(Move(NAME, 1, OLD, (), 60_000), 0)
    world.pass_by(2_000)
    assert (world.group().leader, world.group().leader_epoch) == (1, epoch)
