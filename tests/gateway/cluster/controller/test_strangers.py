"""What a controller tells operators of processes that it has refused, and of gateways that find no leader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import ApplyId, CleanReplicas, ElectLeader, RegisterReplica
from domain.controller.group import SetMember
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import (
    ChangeGroup,
    ControllerFound,
    GatewayMissed,
    GroupChanged,
    HearReplica,
    ListStoreGroups,
    QueryController,
    StrangerSeen,
)
from domain.controller.serving import SERVES_NOBODY, GatewayWord, ServingWord
from gateway.cluster.controller.controller_requests import STRANGERS_MS
from tests.controller.groups.sample import CLUSTER, NAME, says
from tests.gateway.cluster.controller.test_controller_requests import GROUP, IDENTITY, Broker, World, elected


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def broker(world: World) -> Broker:
    found = world.broker()
    found.connection.host = "10.9.9.9"
    return found


def found(broker: Broker) -> ControllerFound:
    """The controller, as `headgate cluster status` asks for it."""
    broker.ask(QueryController(9))
    answer = broker.take()
    assert isinstance(answer, ControllerFound)
    return answer


def led(world: World, broker: Broker) -> None:
    """A group with an identity, which replica 1 leads."""
    elected(world, broker)
    broker.ask(HearReplica(2, GROUP, ReplicaWord(says(1), run="a"), 60_000))
    broker.take()


def test_a_leader_of_another_group_that_serves_clients_is_told_of_for_a_while(world: World, broker: Broker) -> None:
    led(world, broker)
    broker.ask(HearReplica(4, GROUP, ReplicaWord(says(1), run="b", identity="theirs", serving=ServingWord(7)), 0))
    broker.take()
    world.clock.run_for(2_000)
    (stranger,) = found(broker).strangers
    why = f"a heartbeat of replica 1, which serves clients in epoch 7: {GroupRefusal.OTHER_GROUP.value}"
    assert stranger == StrangerSeen(GROUP, "10.9.9.9", why, 2_000)
    world.clock.run_for(STRANGERS_MS)
    assert found(broker).strangers == []


def test_a_replica_that_asks_for_another_group_of_the_name_is_told_of(world: World, broker: Broker) -> None:
    """It refuses these controllers by itself, and registers nowhere."""
    led(world, broker)
    for identity in ("", IDENTITY, "theirs"):
        broker.ask(ListStoreGroups(4, names=[GROUP], identity=identity))
        world.clock.run_for(50)
        broker.take()
    (stranger,) = found(broker).strangers
    assert (stranger.group, stranger.where) == (GROUP, "10.9.9.9")
    assert stranger.why.endswith(GroupRefusal.OTHER_GROUP.value)


def test_a_second_process_of_a_copied_directory_is_told_of(world: World, broker: Broker) -> None:
    led(world, broker)
    broker.ask(ChangeGroup(4, RegisterReplica(GROUP, CLUSTER, 1, "h9:1", "log-1-1", run="b", runs_before=("a",))))
    world.clock.run_for(50)
    assert broker.take().answer.refusal is GroupRefusal.RUNS_ELSEWHERE
    (stranger,) = found(broker).strangers
    assert (stranger.where, stranger.why) == ("h9:1", GroupRefusal.RUNS_ELSEWHERE.value)


def registering(world: World, real: Broker, run: str = "a") -> GroupAnswer:
    """A new replica 1 applies for its id, and registers."""
    real.ask(ChangeGroup(1, ApplyId(GROUP, CLUSTER, 1, "node-1", "h1:1")))
    world.clock.run_for(50)
    real.take()
    real.ask(ChangeGroup(2, RegisterReplica(GROUP, CLUSTER, 1, "h1:1", "log-1-1", run=run)))
    world.clock.run_for(50)
    answer: GroupAnswer = real.take().answer
    return answer


@pytest.mark.parametrize("identity", ["", "theirs"])
def test_before_the_first_election_a_foreign_replica_of_the_same_number_keeps_none_away(
    world: World, broker: Broker, identity: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A group has no identity yet, and a replica of other controllers, which were here before, goes on to send heartbeats."""
    real, foreign = world.broker(), ReplicaWord(replace(says(1, 7), incarnation="log-9"), run="f", identity=identity)
    real.ask(ChangeGroup(1, ApplyId(GROUP, CLUSTER, 1, "node-1", "h1:1")))
    world.clock.run_for(50)
    real.take()
    for _ in range(3):
        broker.ask(HearReplica(2, GROUP, foreign, 60_000))
        broker.take()
    assert registering(world, real).refusal is None
    for _ in range(3):
        broker.ask(HearReplica(2, GROUP, foreign, 60_000))
        real.ask(HearReplica(3, GROUP, ReplicaWord(says(1, 0), run="a"), 60_000))
        broker.take()
        real.take()
    (stranger,) = found(broker).strangers
    assert (stranger.where, stranger.why) == ("10.9.9.9", f"a heartbeat of replica 1: {GroupRefusal.OTHER_GROUP.value}")
    assert (world.requests.strangers.count, world.requests.heartbeats.dropped) == (3, 6)
    assert [each.getMessage()[:44] for each in caplog.records] == ["store group broker-b: refused, from 10.9.9.9"]
    real.ask(ChangeGroup(4, ElectLeader(GROUP, asker=1)))
    world.clock.run_for(50)
    (changed,) = (each for each in real.recorded if isinstance(each, GroupChanged))
    assert changed.answer.group is not None
    assert changed.answer.group.members == (SetMember(1, "log-1-1"),), "what the stranger says is in no election"


def test_before_the_first_election_a_second_process_of_the_directory_is_a_stranger(world: World, broker: Broker) -> None:
    real = world.broker()
    registering(world, real)
    broker.ask(HearReplica(2, GROUP, ReplicaWord(says(1), run="b"), 60_000))
    broker.take()
    (stranger,) = found(broker).strangers
    assert stranger.why == f"a heartbeat of replica 1: {GroupRefusal.RUNS_ELSEWHERE.value}"
    assert registering(world, real).refusal is None


def test_gateways_that_the_next_leader_does_not_have_are_told_of_until_the_group_is_removed(
    world: World, broker: Broker
) -> None:
    has = GatewayWord("a1", "gw-1")
    for number, word in ((1, ServingWord(1, "", (has,))), (2, SERVES_NOBODY), (2, ServingWord(2))):
        broker.ask(HearReplica(1, NAME, ReplicaWord(says(number), serving=word), 0))
        broker.take()
        world.clock.run_for(500)
    assert found(broker).gateways == [GatewayMissed(NAME, "gw-1", 1_500)]
    broker.ask(HearReplica(1, "made-up", ReplicaWord(says(1), serving=ServingWord(1, "", (has,))), 0))
    broker.take()
    broker.ask(ChangeGroup(3, CleanReplicas(NAME, (), even_living=True)))
    world.clock.run_for(100)
    broker.recorded.clear()
    assert found(broker).gateways == []
