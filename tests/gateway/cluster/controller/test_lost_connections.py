"""A leader that lives is not deposed because a controller has lost its connections, or has stood still."""

from __future__ import annotations

import pytest

from controller.member.elections import RETURN_MS, SETTLE_MS
from domain.controller.change import AlterSet
from domain.controller.request import ChangeGroup
from domain.limits import MILLISECOND_NS
from tests.controller.groups.sample import NAME, members
from tests.gateway.cluster.controller.beating import ALIVE_MS, BEAT_MS, Beating


class Led(Beating):
    """Replica 1 leads, and all three beat; in sync are `in_sync`."""

    def __init__(self, *in_sync: int) -> None:
        super().__init__()
        group = self.group()
        if in_sync != (1,):
            change = AlterSet(NAME, 1, group.leader_epoch, group.set_epoch, members(*in_sync))
            self.brokers[1].ask(ChangeGroup(1, change))
        self.pass_by(4 * BEAT_MS)
        assert (self.group().leader, self.group().in_sync) == (1, in_sync)
        self.epoch = self.group().leader_epoch

    def leads_on(self) -> bool:
        """True while nobody was elected or deposed."""
        return (self.group().leader, self.group().leader_epoch) == (1, self.epoch)


@pytest.mark.parametrize("order", [(1, 2, 3), (2, 3, 1), (3, 1, 2)])
def test_when_all_connections_break_the_first_follower_to_come_back_wins_nothing(order: tuple[int, ...]) -> None:
    world = Led(1, 2, 3)
    for each in order:
        world.lose(each)
        world.clock.run_for(5)
    world.clock.run_for(3 * SETTLE_MS)
    world.connect(2)
    world.pass_by(BEAT_MS)
    world.connect(3)
    world.pass_by(BEAT_MS)
    assert world.leads_on()
    world.connect(1)
    world.pass_by(3 * RETURN_MS)
    assert world.leads_on()


def test_a_controller_that_stood_still_deposes_nobody() -> None:
    world = Led(1, 2, 3)
    world.clock.run_for(4 * ALIVE_MS)
    world.heartbeat(2)
    world.clock.run_for(RETURN_MS - 100)
    world.heartbeat(1)
    world.pass_by(3 * RETURN_MS)
    assert world.leads_on()


def test_a_leader_that_does_not_come_back_is_replaced_in_time() -> None:
    world = Led(1, 2, 3)
    began = world.clock.monotonic_ns()
    world.lose(1, 2, 3)
    world.clock.run_for(BEAT_MS)
    world.connect(2, 3)
    while world.group().leader == 1:
        world.pass_by(BEAT_MS)
        assert world.clock.monotonic_ns() - began <= (RETURN_MS + BEAT_MS) * MILLISECOND_NS
    assert world.group().leader == 2


@pytest.mark.parametrize("dead", [(1,), (1, 2), (2, 1)])
def test_a_leader_that_dies_is_replaced_at_once_by_who_is_heard_all_the_while(dead: tuple[int, ...]) -> None:
    world = Led(1, 2, 3)
    if dead[0] != 1:
        world.lose(dead[0])
    world.die(1, *(each for each in dead[1:] if each != 1))
    world.clock.run_for(2 * SETTLE_MS)
    assert world.group().leader == (3 if 2 in dead else 2)


def test_one_broken_connection_of_a_leader_is_not_its_death() -> None:
    world = Led(1, 2, 3)
    for _ in range(3):
        world.lose(1)
        world.clock.run_for(BEAT_MS - 10)
        world.connect(1)
        world.pass_by(2 * RETURN_MS)
        assert world.leads_on()


def test_a_follower_that_loses_its_leader_alone_deposes_nobody() -> None:
    world = Led(1, 2, 3)
    for _ in range(8):
        world.pass_by(BEAT_MS)
        world.heartbeat(2, 1)
    assert world.leads_on()


def test_a_leader_whose_connection_ends_and_who_misses_a_heartbeat_is_replaced_without_a_witness() -> None:
    world = Led(1, 2, 3)
    world.lose(1)
    world.pass_by(BEAT_MS)
    assert world.leads_on()
    world.pass_by(2 * BEAT_MS)
    assert world.group().leader == 2


def test_the_report_of_a_follower_that_is_gone_itself_is_no_witness() -> None:
    world = Led(1, 2, 3)
    world.heartbeat(3, 1)
    world.lose(3)
    world.clock.run_for(5)
    world.lose(1)
    world.clock.run_for(2 * SETTLE_MS)
    assert world.leads_on()


def test_a_replica_that_has_just_started_is_enough_to_know_that_the_leader_is_gone() -> None:
    world = Led(1, 2, 3)
    world.lose(2, 3)
    world.pass_by(2 * RETURN_MS)
    world.connect(2)
    world.clock.run_for(2 * SETTLE_MS)
    world.die(1)
    world.clock.run_for(2 * SETTLE_MS)
    assert world.group().leader == 2


def test_a_leader_whom_nobody_can_follow_is_not_deposed() -> None:
    world = Led(1)
    world.lose(1)
    world.pass_by(3 * RETURN_MS)
    assert world.leads_on(), "2 and 3 are not in the SyncStateSet: the group would have no leader"
    world.connect(1)
    world.pass_by(BEAT_MS)
    assert world.leads_on()
