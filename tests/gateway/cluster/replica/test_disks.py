"""Replicas whose disks fail: leadership goes to another one, and nobody waits for ever."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.replication.ports import LeaderStore
from gateway.cluster.replica import promoting_state
from gateway.cluster.replica.leading_state import LeadingState
from gateway.cluster.replica.promoting_state import PromotingState
from store.replication.replica_log.follower_log import Follower
from tests.gateway.cluster.replica.world import SimReplica, World


def led(seed: int = 1) -> tuple[World, SimReplica, list[SimReplica]]:
    """A group that is whole: the leader, and the others."""
    world = World(seed)
    world.clock.run_for(8_000)
    group = world.service.group()
    assert group is not None
    assert len(group.members) == 3
    leader = next(each for each in world.replicas.values() if each.life.own == group.leader)
    return world, leader, [each for each in world.replicas.values() if each is not leader]


def measured(follower: Follower, left: list[int]) -> Callable[[int], LeaderStore]:
    """`promote`, which notes how many bytes were not applied before."""
    promote = follower.promote

    def promoted(epoch: int) -> LeaderStore:
        left.append(follower.behind - follower.applied)
        return promote(epoch)

    return promoted


def sends(world: World, count: int = 20) -> int:
    """How many of so many sends are acknowledged within a few seconds."""
    before = len(world.acknowledged)
    for _ in range(count):
        world.send()
        world.clock.run_for(20)
    world.clock.run_for(3_000)
    return len(world.acknowledged) - before


def test_a_leader_whose_disk_fails_is_followed_by_another_one() -> None:
    world, leader, _ = led()
    assert sends(world) == 20
    life = leader.life
    leader.disk.fail_syncs = True
    world.send()
    world.clock.run_for(3_000)
    group = world.service.group()
    assert group is not None
    assert group.leader not in (0, life.own)
    assert life.ended
    assert "failed" in life.why
    assert sends(world) == 20
    world.heal()


def test_a_follower_whose_disk_fails_comes_back_in_another_life() -> None:
    world, _, others = led()
    life = others[0].life
    others[0].disk.fail_syncs = True
    assert sends(world) > 0
    assert life.ended
    assert others[0].life is not life
    world.heal()


def test_a_replica_whose_disk_fails_while_it_is_promoted_does_not_keep_the_group() -> None:
    world, leader, others = led()
    for each in others:
        each.disk.sync_ms = 300.0
    world.send()
    world.clock.run_for(30)
    leader.end()
    world.clock.run_until(lambda: any(isinstance(each.life._state, PromotingState) for each in others), 10_000)
    elected = next(each for each in others if isinstance(each.life._state, PromotingState))
    elected.disk.fail_syncs = True
    for each in others:
        each.disk.sync_ms = 2.0
    world.clock.run_for(8_000)
    assert sends(world) == 20
    world.heal()


@pytest.mark.parametrize("moment_ms", [0, 1, 5, 20])
def test_a_leader_that_is_deposed_before_it_serves_leaves_nothing_open(moment_ms: int) -> None:
    world, leader, others = led()
    leader.end()
    world.clock.run_until(lambda: any(each.life.leading is not None for each in others), 10_000)
    elected = next(each for each in others if each.life.leading is not None)
    world.clock.run_for(moment_ms)
    state = elected.life._state
    assert isinstance(state, LeadingState)
    unserved = None if state.serves else state.store
    elected.life.close()
    world.clock.run_for(100)
    assert unserved is None or unserved.replica.broken is None, "a store that is closed has not failed"
    assert state.serves
    assert unserved is None or elected.follower._log.files.segments.open_files == 0


def test_a_follower_without_room_waits_for_it_and_the_group_goes_on() -> None:
    world, leader, others = led()
    follower = others[0]
    life = follower.life
    follower.disk.capacity = sum(len(each.data) for each in follower.disk.files.values()) + 300
    assert sends(world) == 20
    group = world.service.group()
    assert group is not None
    assert life.own not in group.in_sync
    assert follower.life is life, "the replica follows again by itself"
    assert life.doing().startswith("this replica tries to follow")
    assert leader.life.leading is not None
    shipped = leader.life.leading.followers[life.own].sent_ns
    world.clock.run_for(10_000)
    assert leader.life.leading.followers[life.own].sent_ns == shipped, "nothing is sent to who cannot write it"
    assert sends(world) == 20
    follower.disk.capacity = 0
    world.clock.run_for(10_000)
    group = world.service.group()
    assert group is not None
    assert life.own in group.in_sync
    assert follower.life is life
    world.heal()


def test_a_promotion_applies_a_long_tail_in_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promoting_state, "APPLY_AT_ONCE_BYTES", 1_000)
    world, leader, others = led()
    left: list[int] = []
    for each in others:
        monkeypatch.setattr(each.follower, "confirm", lambda position: None)
    assert sends(world, 60) == 60
    assert all(each.follower.behind - each.follower.applied > 5_000 for each in others)
    monkeypatch.undo()
    monkeypatch.setattr(promoting_state, "APPLY_AT_ONCE_BYTES", 1_000)
    for each in others:
        monkeypatch.setattr(each.follower, "promote", measured(each.follower, left))
    leader.end()
    world.clock.run_for(5_000)
    assert left
    assert left[0] <= 1_000
    assert sends(world) == 20
    world.heal()


def filled(one: SimReplica) -> None:
    """The volume of a replica has no room for another message."""
    one.disk.capacity = sum(len(each.data) for each in one.disk.files.values()) + 300


def leads(world: World) -> SimReplica:
    """Who leads, by the word of the controllers."""
    group = world.service.group()
    assert group is not None
    return next(each for each in world.replicas.values() if each.life.own == group.leader)


def test_a_leader_without_room_is_followed_by_a_member_that_has_some() -> None:
    world, leader, others = led()
    life = leader.life
    filled(others[0])
    assert sends(world) == 20, "it notices that it has no room"
    filled(leader)
    sends(world)
    world.clock.run_for(5_000)
    assert leads(world) is others[1], "who has no room is not asked to lead"
    assert life.ended
    assert sends(world) == 20
    elections = world.elections
    world.clock.run_for(120_000)
    assert (leads(world), world.elections) == (others[1], elections), "leadership goes nowhere else"
    for each in (leader, others[0]):
        each.disk.capacity = 0
    world.heal()


def test_a_low_share_of_free_bytes_is_no_room_either() -> None:
    world, leader, others = led()
    for each in (leader, others[1]):
        each.disk.free = 0.01
    world.clock.run_for(20_000)
    assert leads(world) is others[0]
    assert sends(world) == 20
    for each in (leader, others[1]):
        each.disk.free = 1.0
    world.heal()


def test_nobody_has_room_and_the_leader_stays_until_somebody_has(caplog: pytest.LogCaptureFixture) -> None:
    world, leader, others = led()
    for each in world.replicas.values():
        filled(each)
        each.disk.free = 0.01
    sends(world)
    elections = world.elections
    world.clock.run_for(180_000)
    assert (leads(world), world.elections) == (leader, elections), "the same would be said to everybody there"
    assert sum("no member of the SyncStateSet has said that it has some" in each for each in caplog.messages) == 1
    assert sends(world) == 0
    others[1].disk.capacity, others[1].disk.free = 0, 1.0
    world.clock.run_for(10_000)
    assert leads(world) is others[1]
    assert sends(world) == 20
    for each in world.replicas.values():
        each.disk.capacity, each.disk.free = 0, 1.0
    world.heal()


def test_an_election_that_is_refused_is_asked_for_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    world, leader, _ = led()
    asked: list[int] = []

    def change(_change: object, done: Callable[[GroupAnswer], None]) -> None:
        asked.append(world.clock.monotonic_ns() // 1_000_000_000)
        done(GroupAnswer(GroupRefusal.ELECTION_FAILED, None))

    monkeypatch.setattr(leader.controllers, "change", change)
    leader.disk.free = 0.01
    world.clock.run_for(200_000)
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert [round(each, -1) for each in pauses[1:4]] == [10, 20, 40]
    assert all(55 <= each <= 65 for each in pauses[4:])
    leader.disk.free = 1.0
    monkeypatch.undo()
    world.heal()


def test_a_leader_that_has_room_again_soon_stays() -> None:
    world, leader, _ = led()
    filled(leader)
    world.send()
    world.clock.run_for(700)
    leader.disk.capacity = 0
    world.clock.run_for(10_000)
    assert leads(world) is leader
    assert sends(world) == 20
    world.heal()
