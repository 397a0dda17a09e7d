"""A replica that should not lead is elected when nobody else can lead, and not because the others are away for a moment."""

from __future__ import annotations

import pytest

from controller.groups.heartbeats import BEATS_MISSED
from controller.member.elections import RETURN_MS
from controller.slow_replicas.history import RECENT
from domain.controller.change import AlterSet
from domain.controller.health import Fitness, ReplicaFigures
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ChangeGroup, HearReplica
from domain.limits import MILLISECOND_NS
from tests.controller.groups.sample import NAME, members, says
from tests.gateway.cluster.controller.beating import ALIVE_MS, BEAT_MS, Beating

OFF, OFF_MS, SKEW_MS = 3, -1_500, 500


class Off(Beating):
    """Replica 1 leads, all three are in sync, and the clock of OFF is off, which the controller knows."""

    def __init__(self) -> None:
        super().__init__()
        group = self.group()
        self.brokers[1].ask(ChangeGroup(1, AlterSet(NAME, 1, group.leader_epoch, group.set_epoch, members(1, 2, OFF))))
        self.pass_by((RECENT + 1) * BEAT_MS + 1_000)
        assert (self.group().leader, self.group().in_sync) == (1, (1, 2, OFF))
        assert self.requests.grey is not None
        assert self.requests.grey.standing(NAME, OFF).fitness is Fitness.CLOCK_OFF

    def lose_all(self, off_is: str = "the first to come") -> None:
        """All connections to the controller break; that of OFF is the last one to end, or the first one that is made again."""
        if off_is == "the first to come":
            self.lose(OFF)
            self.connect(OFF)
        self.lose(1, 2)
        self.clock.run_for(50)
        if off_is == "the last to go":
            self.lose(OFF)
        self.clock.run_for(50)

    def heartbeat(self, replica: int, parted: int = 0) -> None:
        """One heartbeat, with what its wall clock says."""
        wall_ms = self.clock.wall_ms() + (OFF_MS if replica == OFF else 0)
        self.brokers[replica].ask(
            HearReplica(
                0,
                NAME,
                ReplicaWord(says(replica), figures=ReplicaFigures(wall_ms=wall_ms, skew_ms=SKEW_MS), parted=parted),
                ALIVE_MS,
            )
        )


@pytest.mark.parametrize("off_is", ["the first to come", "the last to go"])
def test_one_whose_clock_is_off_does_not_win_because_it_is_alone_for_a_moment(off_is: str) -> None:
    world = Off()
    world.lose_all(off_is)
    assert world.group().leader == 1
    if OFF not in world.brokers:
        world.connect(OFF)
        world.clock.run_for(50)
        assert world.group().leader == 1
    world.connect(2)
    world.pass_by(RETURN_MS)
    assert world.group().leader == 2, "the leader stays away, and the other one need not wait for it any longer"
    world.pass_by(2 * RETURN_MS)
    assert world.group().leader == 2


def test_a_leader_that_connects_again_meanwhile_leads_on() -> None:
    world = Off()
    epoch = world.group().leader_epoch
    world.lose_all()
    world.connect(1, 2)
    world.pass_by(3 * RETURN_MS)
    assert (world.group().leader, world.group().leader_epoch, world.group().in_sync) == (1, epoch, (1, 2, OFF))


def test_when_nobody_else_comes_it_leads(caplog: pytest.LogCaptureFixture) -> None:
    world = Off()
    began = world.clock.monotonic_ns()
    world.lose_all()
    world.pass_by(ALIVE_MS // BEATS_MISSED)
    while world.group().leader != OFF:
        world.pass_by(BEAT_MS)
        waited_ns = world.clock.monotonic_ns() - began - ALIVE_MS // BEATS_MISSED * MILLISECOND_NS
        assert waited_ns < (RETURN_MS + 2 * BEAT_MS) * MILLISECOND_NS
    waits = [each.getMessage() for each in caplog.records if "is waited for" in each.getMessage()]
    assert len(waits) == 1, "it is said once, and not at each look"


def test_one_that_comes_and_goes_is_not_waited_for_again_and_again() -> None:
    world = Off()
    began = world.clock.monotonic_ns()
    world.lose_all()
    world.pass_by(ALIVE_MS // BEATS_MISSED)
    while world.group().leader != OFF:
        world.connect(2)
        world.brokers.pop(2).connection.end()
        world.pass_by(BEAT_MS)
        waited_ns = world.clock.monotonic_ns() - began - ALIVE_MS // BEATS_MISSED * MILLISECOND_NS
        assert waited_ns < (RETURN_MS + 2 * BEAT_MS) * MILLISECOND_NS


def test_among_others_the_election_is_at_once() -> None:
    world = Off()
    world.die(1)
    world.clock.run_for(30)
    assert world.group().leader == 2
