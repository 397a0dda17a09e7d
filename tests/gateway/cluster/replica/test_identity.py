"""Each replica knows of which store group its log is, and obeys no controllers that know another one of the name."""

from __future__ import annotations

from dataclasses import replace

from domain.controller.answer import GroupRefusal
from tests.gateway.cluster.replica.service import IDENTITY
from tests.gateway.cluster.replica.world import World


def world_with_a_leader() -> World:
    world = World(1)
    world.clock.run_for(6_000)
    assert any(each.store is not None for each in world.replicas.values())
    return world


def test_every_replica_has_the_identity_of_the_group_beside_its_log() -> None:
    world = world_with_a_leader()
    assert {each.life._place.identity.group for each in world.replicas.values()} == {IDENTITY}
    assert len({each.disk.read_all("replica-group") for each in world.replicas.values()}) == 1
    assert {each.controllers.identity for each in world.replicas.values()} == {IDENTITY}


def test_the_word_of_controllers_that_know_another_group_changes_nothing() -> None:
    """They came back empty, and another replica has begun a group of the name."""
    world = world_with_a_leader()
    before = world.service.group()
    assert before is not None
    other = replace(before, identity="746865697273", leader=3 - before.leader % 2, leader_epoch=before.leader_epoch + 9)
    lives = {number: each.life for number, each in world.replicas.items()}
    leading = {number: each.store is not None for number, each in world.replicas.items()}
    for each in world.replicas.values():
        each.life.heard(other)
        assert each.life.group is not None
        assert each.life.group.leader_epoch == before.leader_epoch
        assert each.life._place.strangers.count == 1
        assert each.controllers.refuses == GroupRefusal.OTHER_GROUP.value
    world.clock.run_for(2_000)
    assert {number: each.life for number, each in world.replicas.items()} == lives
    assert {number: each.store is not None for number, each in world.replicas.items()} == leading
    assert {each.controllers.refuses for each in world.replicas.values()} == {""}, "the right ones answer again"
