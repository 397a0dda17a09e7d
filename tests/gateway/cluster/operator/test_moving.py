"""`headgate cluster move`: to a replica that is in sync, and to one that the leader has to take in before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import informed
from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet, ElectLeader, GroupChange, SetAcks
from domain.controller.group import StoreGroup
from domain.controller.health import Fitness, Standing
from domain.controller.left_out import LeftOut, MemberLack
from domain.controller.replica_word import ReplicaWord
from domain.errors import ConfigError
from gateway.cluster.operator import moving
from protocols.remoting.controller.asking import Heard
from tests.controller.groups.sample import NAME, group_of, led, members, says, start

BEGIN_MS = 100_000
SECONDS = 15.0


class ScriptedOrders:
    """A store group of which replicas 1 and 2 are in sync, and 1 leads. Time passes only while the order waits.

    left_out   what the leader says with its heartbeats
    each_poll  called each time that the order waits, with the seconds that it has waited
    slow       ids of the replicas that are slow
    dead       ids of the replicas that are not heard
    """

    def __init__(self) -> None:
        self.groups = led((1, 2))
        self.left_out: tuple[LeftOut, ...] = (LeftOut(3, MemberLack.RECORDS, 1_000),)
        self.each_poll: Callable[[float], None] = lambda waited_s: None
        self.slow: set[int] = set()
        self.dead: set[int] = set()
        self.refuses = ""
        self.waited_s = 0.0
        self.elections: list[int] = []
        self.said: list[str] = []

    @property
    def found(self) -> StoreGroup:
        return group_of(self.groups)

    def _heartbeats(self) -> Heartbeats:
        heartbeats = Heartbeats(0)
        for number in {1, 2, 3} - self.dead:
            leads = number == self.found.leader
            word = ReplicaWord(says(number, 1, 5_000 - number), left_out=self.left_out if leads else ())
            if number == 3:
                word = word._replace(refuses=self.refuses)
            heartbeats.heard(NAME, word, 0, number, BEGIN_MS)
        return heartbeats

    def group(self, name: str) -> Heard:
        assert name == NAME
        words = self._heartbeats().words(self.found, BEGIN_MS)
        slow = Standing(Fitness.SLOW, "sync_us 603,112, usual 1,204")
        return self.found, tuple(replace(each, standing=slow) if each.report.id in self.slow else each for each in words)

    def change(self, change: GroupChange) -> GroupAnswer:
        assert isinstance(change, ElectLeader)
        self.elections.append(change.designated)
        return self.groups.apply(informed(change, self.found, self._heartbeats(), BEGIN_MS))

    def takes_in(self, *ids: int) -> None:
        """The leader replaces the SyncStateSet."""
        group = self.found
        change = AlterSet(NAME, group.leader, group.leader_epoch, group.set_epoch, members(*ids))
        assert self.groups.apply(change).refusal is None

    def move(self, replica: int, seconds: float = SECONDS) -> int:
        def sleep(pause_s: float) -> None:
            self.waited_s += pause_s
            self.each_poll(self.waited_s)

        return moving.move(self, NAME, replica, seconds, self.said.append, sleep)

    def refused(self, replica: int, seconds: float = SECONDS) -> str:
        with pytest.raises(ConfigError) as found:
            self.move(replica, seconds)
        return str(found.value)


@pytest.fixture
def here() -> ScriptedOrders:
    return ScriptedOrders()


def test_a_member_leads_at_once(here: ScriptedOrders) -> None:
    assert here.move(2) == 0
    assert (here.found.leader, here.waited_s, here.elections) == (2, 0.0, [2])


def test_a_replica_that_the_leader_takes_in_leads_in_one_step(here: ScriptedOrders) -> None:
    here.each_poll = lambda waited_s: here.takes_in(1, 2, 3) if waited_s == 2.0 else None
    assert here.move(3) == 0
    assert (here.found.leader, here.waited_s, here.elections) == (3, 2.0, [3])
    assert here.said[0] == "replica 3 is not in sync yet: it gets what it lacks (1,000 bytes)"


def test_it_is_never_elected_before_it_is_in_sync(here: ScriptedOrders) -> None:
    before = here.found
    assert here.refused(3) == (
        "nothing was changed: replica 3 is not in sync, and would lack records (it gets what it lacks (1,000 bytes)); in sync "
        "are 1, 2"
    )
    assert (here.found, here.elections, here.waited_s) == (before, [], SECONDS)


def test_the_operator_says_how_long_it_is_waited_for(here: ScriptedOrders) -> None:
    here.refused(3, 0.0)
    assert here.waited_s == 0.0


@pytest.mark.parametrize("lack", [MemberLack.CONNECTION, MemberLack.PROGRESS])
def test_another_member_leads_meanwhile_when_the_leader_does_not_reach_it(here: ScriptedOrders, lack: MemberLack) -> None:
    here.left_out = (LeftOut(3, lack),)
    here.each_poll = lambda waited_s: here.takes_in(1, 2, 3) if here.found.leader == 2 else None
    assert here.move(3) == 0
    assert (here.found.leader, here.elections, here.waited_s) == (3, [2, 3], moving.UNREACHED_S + moving.POLL_S)
    assert "replica 1 does not reach replica 3: replica 2 leads meanwhile, and takes it in" in here.said


def test_it_moves_once_and_says_who_leads_when_the_other_one_does_not_reach_it_either(here: ScriptedOrders) -> None:
    here.left_out = (LeftOut(3, MemberLack.CONNECTION),)
    said = here.refused(3)
    assert said.startswith("replica 2 leads now, and replica 3 is not in sync, and would lack records (the leader has no conn")
    assert here.elections == [2]
    assert here.waited_s <= 2 * moving.UNREACHED_S + moving.POLL_S


@pytest.mark.parametrize("hinders", ["dead", "slow"])
def test_only_a_live_ordinary_member_leads_meanwhile(here: ScriptedOrders, hinders: str) -> None:
    here.left_out = (LeftOut(3, MemberLack.CONNECTION),)
    getattr(here, hinders).add(2)
    assert here.refused(3).startswith("nothing was changed: ")
    assert here.elections == []


def test_a_replica_that_is_not_heard_is_waited_for_some_seconds(here: ScriptedOrders) -> None:
    here.dead = {3}
    assert "the controllers do not hear it" in here.refused(3)
    assert here.waited_s == moving.UNREACHED_S


def test_it_says_at_once_what_time_does_not_mend(here: ScriptedOrders) -> None:
    here.slow = {3}
    assert "it is passed over, since it is slow: sync_us 603,112" in here.refused(3)
    here.slow, here.refuses = set(), "two histories"
    assert "two histories" in here.refused(3)
    here.refuses = ""
    start(here.groups, 3, learner=True)
    assert "it is a learner" in here.refused(3)
    assert (here.waited_s, here.elections) == (0.0, [])


def test_beside_a_leader_of_the_version_before_which_says_nothing_it_waits_all_the_same(here: ScriptedOrders) -> None:
    here.left_out = ()
    assert "replica 1, which leads, has not taken it in yet" in here.refused(3)
    here.each_poll = lambda waited_s: here.takes_in(1, 2, 3) if 3 not in here.found.in_sync else None
    assert here.move(3) == 0


def test_where_fewer_members_confirm_a_move_takes_the_same_way(here: ScriptedOrders) -> None:
    here.takes_in(1, 2, 3)
    assert here.groups.apply(SetAcks(NAME, 2)).refusal is None
    here.takes_in(1, 2)
    here.each_poll = lambda waited_s: here.takes_in(1, 2, 3) if waited_s == 1.0 else None
    assert here.move(3) == 0
    assert here.elections == [3]
