"""What a controller answers to brokers, tools and other controllers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.groups import heartbeats
from controller.member.elections import SETTLE_MS
from controller.member.founding import Founding
from controller.member.identity import MemberIdentity
from controller.member.member import ANSWER_MS
from controller.slow_replicas import record
from controller.slow_replicas.history import PAST_MIN, RECENT
from controller.slow_replicas.record import FiguresRecord
from domain.command import Command
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import (
    AlterSet,
    ApplyId,
    ElectLeader,
    FoundGroup,
    GroupChange,
    RecoverGroup,
    RegisterReplica,
    SetMinInSync,
)
from domain.controller.group import StoreGroup
from domain.controller.health import ReplicaFigures
from domain.controller.peer import ACKS_LEVEL, LEVEL, ControllerGreeted, GreetController, LeaderChanged, TellController
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import (
    GROUPS_LISTED_MAX,
    ChangeControllerSettings,
    ChangeGroup,
    ControllerFound,
    ControllerSettingsFound,
    ControllersFound,
    GroupChanged,
    GroupsFound,
    HearReplica,
    ListStoreGroups,
    QueryController,
    QueryControllers,
    QueryControllerSettings,
    QueryGroups,
)
from domain.errors import ErrorCode
from domain.event import Done, Refused
from domain.limits import MILLISECOND_NS
from gateway.cluster.controller.controller_requests import IDENTITY_BYTES, ControllerRequests
from gateway.connection.client_connection import ClientConnection
from tests.connection_driver import RecordingDriver
from tests.controller.groups.sample import CLUSTER, NAME, members, says
from tests.controller.member.stage import Stage
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import FixedEntropy

ENDPOINTS = [("a", 1), ("b", 1), ("c", 1)]
GROUP = "broker-b"
ENTROPY = FixedEntropy()
IDENTITY = ENTROPY.token(IDENTITY_BYTES).hex()
"""Identity that the controller draws for a group."""


class Broker(RecordingDriver):
    """A connection of a broker or a tool, with the events that it was sent."""

    def __init__(self, controlling: ControllerRequests) -> None:
        super().__init__()
        self.connection = ClientConnection("remoting", self)
        self._verbs = controlling.verbs

    def ask(self, command: Command) -> None:
        """Send a command."""
        self._verbs[type(command)](self.connection, command)

    def take(self) -> Any:
        """The only event since the last call."""
        (event,) = self.recorded
        self.recorded.clear()
        return event


class World(Stage):
    """The controllers of `Stage`; the one that leads answers here."""

    def __init__(self) -> None:
        self.led_by = 0
        super().__init__()
        self.with_group()
        node = self.leader()
        assert node.member is not None
        node.elections.stop()
        founding = self.founding = Founding(MemberIdentity(node.number, frozenset(self.numbers)), ["a:1", "b:1", "c:1"])
        for number, address in zip(self.numbers, ("a:1", "b:1", "c:1"), strict=True):
            founding.heard(address, MemberIdentity(number, frozenset(self.numbers)))
        self.led_by = node.number
        self.disk = MemoryDisk(self.clock)
        self.greetings: list[MemberIdentity] = []
        self.requests = ControllerRequests(
            founding, ENDPOINTS, self.clock, ENTROPY, lambda greeting, _book: self.greetings.append(greeting)
        )
        self.requests.joined(node.member, FiguresRecord(self.disk))

    def applied(self, number: int, change: GroupChange, answer: GroupAnswer) -> None:
        if number == self.led_by:
            self.requests.applied(change, answer)

    def broker(self) -> Broker:
        return Broker(self.requests)


def ungreeted(_greeting: MemberIdentity, _book: tuple[str, ...]) -> None:
    raise AssertionError("nobody greets this controller")


def alone() -> Founding:
    """A controller that has not heard the others."""
    return Founding(MemberIdentity(7), ["a:1", "b:1", "c:1"])


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def broker(world: World) -> Broker:
    return world.broker()


def test_before_its_group_is_known_a_controller_leads_nothing_and_says_who_the_others_are() -> None:
    stage = Stage()
    broker = Broker(ControllerRequests(alone(), ENDPOINTS, stage.clock, ENTROPY, ungreeted))
    broker.ask(ChangeGroup(1, ApplyId(NAME, CLUSTER, 1, "node-1", "h1:10911")))
    assert broker.take().answer.refusal is GroupRefusal.NOT_LEADING
    broker.ask(QueryGroups(2, [NAME]))
    assert broker.take() == GroupsFound(2, GroupRefusal.NOT_LEADING, ())
    broker.ask(QueryControllers(3))
    assert broker.take() == ControllersFound(3, "headgate", "", False, {"n0": "a:1", "n1": "b:1", "n2": "c:1"})
    broker.ask(TellController(b"nobody takes it"))
    assert broker.recorded == []


def test_a_change_is_answered_with_the_group_and_who_is_alive(world: World, broker: Broker) -> None:
    broker.ask(HearReplica(1, NAME, ReplicaWord(says(1)), 0))
    assert broker.take() == Done(1)
    broker.ask(ChangeGroup(2, SetMinInSync(NAME, 2)))
    world.clock.run_for(100)
    event = broker.take()
    assert isinstance(event, GroupChanged)
    assert event.answer.refusal is None
    assert event.answer.group is not None
    assert event.answer.group.least == 2
    assert event.alive == {1}


def test_of_a_change_whose_fate_is_not_known_the_answer_says_that(world: World, broker: Broker) -> None:
    world.isolate(world.led_by)
    broker.ask(ChangeGroup(1, SetMinInSync(NAME, 2)))
    world.clock.run_for(ANSWER_MS + 500)
    event = broker.take()
    assert isinstance(event, Refused)
    assert event.failure.code is ErrorCode.STORE_UNAVAILABLE
    assert "not known" in event.failure.text


def test_who_is_alive_is_what_the_controller_has_heard_and_not_what_a_client_says(world: World, broker: Broker) -> None:
    broker.ask(ChangeGroup(1, ElectLeader(NAME, (says(2), says(3)), designated=3)))
    world.clock.run_for(100)
    assert broker.take().answer.refusal is GroupRefusal.ELECTION_FAILED


def test_a_query_has_the_groups_that_are_known(world: World, broker: Broker) -> None:
    broker.ask(QueryGroups(1, ["unknown", NAME]))
    world.clock.run_for(100)
    event = broker.take()
    assert event.refusal is None
    assert [group.name for group, _ in event.groups] == [NAME]
    broker.ask(QueryControllers(2))
    event = broker.take()
    assert event.is_leader
    assert event.leader == f"n{world.led_by - 1}"


def test_groups_are_listed_with_what_was_heard_of_their_replicas(world: World, broker: Broker) -> None:
    for number in range(1, 2 + GROUPS_LISTED_MAX):
        broker.ask(ChangeGroup(1, ApplyId(f"group-{number:03}", CLUSTER, 1, "node-1", "h1:10911")))
        world.clock.run_for(100)
        broker.take()
    broker.ask(HearReplica(1, NAME, ReplicaWord(says(2)), 0))
    broker.take()
    world.clock.run_for(300)
    broker.ask(ListStoreGroups(2))
    world.clock.run_for(100)
    event = broker.take()
    assert event.refusal is None
    assert event.more
    assert len(event.groups) == GROUPS_LISTED_MAX
    names = [group.name for group, _ in event.groups]
    assert names == sorted(names)
    assert names[0] == NAME
    (word,) = event.groups[0][1]
    assert (word.report, word.alive) == (says(2), True)
    assert 300 <= word.age_ms < 1_000
    broker.ask(ListStoreGroups(3, after=names[-1]))
    world.clock.run_for(100)
    rest = broker.take()
    assert not rest.more
    assert len(rest.groups) == 2
    broker.ask(ListStoreGroups(4, names=["unknown", NAME]))
    world.clock.run_for(100)
    assert [group.name for group, _ in broker.take().groups] == [NAME]


def test_every_controller_says_how_it_is_and_only_one_that_leads_lists_groups(world: World, broker: Broker) -> None:
    broker.ask(QueryController(1))
    event = broker.take()
    assert (event.node, event.leads, event.leader, event.failure) == (world.led_by, True, world.led_by, "")
    assert (list(event.voters), list(event.learners)) == ([1, 2, 3], [])
    assert event.places == {1: "a:1", 2: "b:1", 3: "c:1"}
    new = Broker(ControllerRequests(alone(), ENDPOINTS, world.clock, ENTROPY, ungreeted))
    new.ask(QueryController(2))
    assert new.take() == ControllerFound(2, 7, 0, False, 0, (), (), {}, "", ("a:1", "b:1", "c:1"))
    new.ask(ListStoreGroups(3))
    assert new.take().refusal is GroupRefusal.NOT_LEADING


@pytest.mark.parametrize("ends", ["the connection of the leader ends", "the leader starts again"])
def test_a_leader_that_is_gone_is_replaced_at_once(world: World, ends: str) -> None:
    first, second = world.broker(), world.broker()
    assert world.requests.member is not None
    (group,) = world.requests.member.groups
    for broker, replica in ((first, 1), (second, 2)):
        broker.ask(HearReplica(1, NAME, ReplicaWord(says(replica)), 0))
        broker.take()
    second.ask(ChangeGroup(2, AlterSet(NAME, 1, group.leader_epoch, group.set_epoch, members(1, 2))))
    world.clock.run_for(1_000)
    second.take()
    began = world.clock.monotonic_ns()
    if ends == "the leader starts again":
        second.ask(ChangeGroup(3, RegisterReplica(NAME, CLUSTER, 1, "h1:10911", "log-1-2")))
    else:
        first.connection.end()
        second.ask(HearReplica(4, NAME, ReplicaWord(says(2), parted=1), 0))
    world.clock.run_until(lambda: any(isinstance(each, LeaderChanged) for each in second.recorded), 5_000)
    assert second.recorded[-1].group.leader == 2  # type: ignore[attr-defined]
    took_ms = (world.clock.monotonic_ns() - began) / 1_000_000
    assert took_ms < SETTLE_MS + 30, "some round trips of 4 ms, and neither a heartbeat's time nor a look"


def test_an_operators_recovery_is_told_to_the_replicas_and_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    third = world.broker()
    third.ask(HearReplica(1, NAME, ReplicaWord(says(3)), 0))
    third.take()
    assert world.requests.member is not None
    (group,) = world.requests.member.groups
    third.ask(ChangeGroup(2, RecoverGroup(NAME, 3, group.set_epoch, NAME)))
    world.clock.run_for(100)
    changed, told = sorted(third.recorded, key=lambda each: type(each).__name__)
    assert isinstance(changed, GroupChanged)
    assert changed.answer.refusal is None
    assert isinstance(told, LeaderChanged)
    assert told.group.leader == 3
    assert "what it lacks is lost" in caplog.text


def test_replicas_are_told_of_a_new_leader_and_others_are_not(world: World) -> None:
    first, second, stranger = world.broker(), world.broker(), world.broker()
    group = next(iter(world.requests.member.groups)) if world.requests.member is not None else None
    assert group is not None
    for broker, replica in ((first, 1), (second, 2)):
        broker.ask(HearReplica(1, NAME, ReplicaWord(says(replica)), 0))
        broker.take()
    stranger.ask(HearReplica(1, "another", ReplicaWord(says(1)), 0))
    stranger.take()
    first.ask(ChangeGroup(2, AlterSet(NAME, 1, group.leader_epoch, group.set_epoch, members(1, 2))))
    world.clock.run_for(100)
    assert isinstance(first.take(), GroupChanged)
    first.connection.end()
    world.clock.run_for(2_300)
    told = second.take()
    assert isinstance(told, LeaderChanged)
    assert told.group.leader == 2, "the connection of the leader has ended, and it has missed a heartbeat"
    assert stranger.recorded == []


def test_heartbeats_of_replicas_that_do_not_exist_take_nobodys_place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "REPLICAS_HEARD_MAX", 8)
    broker = world.broker()
    before = sum(map(len, _containers(world.requests)))
    for number in range(100):
        broker.ask(HearReplica(1, f"made-up-{number}", ReplicaWord(says(1)), 3_600_000))
        broker.take()
        broker.ask(HearReplica(1, NAME, ReplicaWord(says(1_000 + number)), 3_600_000))
        broker.take()
    assert world.requests.heartbeats.dropped == 200
    assert sum(map(len, _containers(world.requests))) <= before + 1, "the connection is known once"
    broker.ask(HearReplica(1, NAME, ReplicaWord(says(1)), 0))
    assert world.requests.member is not None
    group = world.requests.member.groups.group(NAME)
    assert group is not None
    assert world.requests.heartbeats.live(group, world.clock.monotonic_ns() // 1_000_000) == (says(1),)


def _containers(controlling: ControllerRequests) -> list[Any]:
    return [each for each in vars(controlling).values() if isinstance(each, dict | set | list)]


def test_settings_that_were_changed_before_the_group_is_known_hold(world: World) -> None:
    controlling = ControllerRequests(alone(), ENDPOINTS, world.clock, ENTROPY, ungreeted)
    broker = Broker(controlling)
    broker.ask(ChangeControllerSettings(1, {"scan_ms": "200"}))
    assert broker.take() == Done(1)
    assert world.requests.member is not None
    controlling.joined(world.requests.member, FiguresRecord(world.disk))
    assert controlling.elections is not None
    assert controlling.elections.poll_ms == 200


def test_a_controller_that_closes_leaves_nobody_waiting(world: World, broker: Broker) -> None:
    broker.ask(ChangeGroup(1, SetMinInSync(NAME, 2)))
    world.requests.close()
    assert isinstance(broker.take(), Refused)
    broker.ask(QueryGroups(2, [NAME]))
    assert broker.take() == GroupsFound(2, GroupRefusal.NOT_LEADING, ())


def test_notices_of_new_leaders_can_be_turned_off(world: World, broker: Broker) -> None:
    broker.ask(ChangeControllerSettings(1, {"notify_role_changed": "false", "scan_ms": "200"}))
    assert broker.take() == Done(1)
    broker.ask(QueryControllerSettings(2))
    assert broker.take() == ControllerSettingsFound(2, {"notify_role_changed": "false", "scan_ms": "200"})
    broker.ask(HearReplica(3, NAME, ReplicaWord(says(1)), 0))
    broker.take()
    broker.ask(ChangeGroup(4, ElectLeader(NAME, designated=1)))
    world.clock.run_for(1_000)
    assert isinstance(broker.take(), GroupChanged)


@pytest.mark.parametrize(
    "values", [{"notify_role_changed": "perhaps"}, {"scan_ms": "0"}, {"scan_ms": "x"}, {"scan_ms": "1000000"}]
)
def test_settings_that_make_no_sense_are_refused_and_none_is_changed(broker: Broker, values: dict[str, str]) -> None:
    broker.ask(ChangeControllerSettings(1, {"notify_role_changed": "false", **values}))
    event = broker.take()
    assert isinstance(event, Refused)
    assert event.failure.code is ErrorCode.ARGUMENT_ILLEGAL
    broker.ask(QueryControllerSettings(2))
    assert broker.take().values["notify_role_changed"] == "true"


def test_a_first_election_waits_for_an_operator_while_a_log_was_in_one(world: World, broker: Broker) -> None:
    """Controllers that came back empty: whoever asked first would lead, however little it has."""
    for number, epoch in ((1, 0), (2, 5)):
        broker.ask(ChangeGroup(1, ApplyId(GROUP, CLUSTER, number, f"node-{number}", f"h{number}:1")))
        world.clock.run_for(50)
        broker.take()
        broker.ask(
            ChangeGroup(2, RegisterReplica(GROUP, CLUSTER, number, f"h{number}:1", f"log-{number}-1", epoch=epoch, position=9))
        )
        world.clock.run_for(50)
        assert broker.take().answer.refusal is None
        broker.ask(HearReplica(3, GROUP, ReplicaWord(says(number, epoch)), 0))
        broker.take()
    for asked in (ElectLeader(GROUP, asker=1), ElectLeader(GROUP, asker=2), ElectLeader(GROUP, designated=1)):
        broker.ask(ChangeGroup(4, asked))
        world.clock.run_for(50)
        answer = broker.take().answer
        assert answer.refusal is GroupRefusal.FORGOTTEN
        assert answer.group is not None
        assert (answer.group.leader, answer.group.members) == (0, ())
    broker.ask(ChangeGroup(5, FoundGroup(GROUP, 2)))
    world.clock.run_for(50)
    events, broker.recorded = broker.recorded, []
    assert [each.group.leader for each in events if isinstance(each, LeaderChanged)] == [2], "replicas hear of it at once"
    (changed,) = (each for each in events if isinstance(each, GroupChanged))
    assert changed.answer.group is not None
    assert (changed.answer.group.leader, changed.answer.group.leader_epoch) == (2, 6)


def test_a_second_process_of_a_replica_does_not_register_while_the_first_is_alive(world: World) -> None:
    first, second = world.broker(), world.broker()
    register = RegisterReplica(GROUP, CLUSTER, 1, "h1:1", "log-1-1", run="a")
    copy = replace(register, address="h9:1", run="b", runs_before=("a",))
    first.ask(ChangeGroup(1, ApplyId(GROUP, CLUSTER, 1, "node-1", "h1:1")))
    world.clock.run_for(50)
    first.ask(ChangeGroup(2, register))
    world.clock.run_for(50)
    first.ask(HearReplica(3, GROUP, ReplicaWord(says(1), run="a"), 0))
    second.ask(ChangeGroup(4, copy))
    world.clock.run_for(50)
    assert second.take().answer.refusal is GroupRefusal.RUNS_ELSEWHERE
    world.requests.heartbeats.closed(first.connection, world.clock.monotonic_ns() // MILLISECOND_NS)
    second.ask(ChangeGroup(5, copy))
    world.clock.run_for(50)
    group = second.take().answer.group
    assert (group.replica(1).address, group.replica(1).run) == ("h9:1", "b")


def test_no_run_is_written_while_a_controller_of_a_version_before_is_heard(world: World, broker: Broker) -> None:
    world.founding.notified(MemberIdentity(world.led_by, frozenset(world.numbers), 0))
    broker.ask(ChangeGroup(1, ApplyId(GROUP, CLUSTER, 1, "node-1", "h1:1")))
    world.clock.run_for(50)
    broker.take()
    broker.ask(ChangeGroup(2, RegisterReplica(GROUP, CLUSTER, 1, "h1:1", "log-1-1", run="a")))
    world.clock.run_for(50)
    assert broker.take().answer.group.replica(1).run == ""


def take_in(world: World, broker: Broker, number: int, identity: str = "", epoch: int = 0) -> GroupAnswer:
    """A replica applies for an id, and registers."""
    address = f"h{number}:1"
    broker.ask(ChangeGroup(1, ApplyId(GROUP, CLUSTER, number, f"node-{number}", address)))
    world.clock.run_for(50)
    broker.take()
    change = RegisterReplica(GROUP, CLUSTER, number, address, f"log-{number}-1", epoch=epoch, position=9, identity=identity)
    broker.ask(ChangeGroup(2, change))
    world.clock.run_for(50)
    answer: GroupAnswer = broker.take().answer
    return answer


def elected(world: World, broker: Broker) -> StoreGroup:
    """The group after its first election."""
    take_in(world, broker, 1)
    broker.ask(ChangeGroup(3, ElectLeader(GROUP, asker=1)))
    world.clock.run_for(50)
    group: StoreGroup | None = broker.take().answer.group
    assert group is not None
    return group


def test_a_group_has_a_drawn_identity_from_its_first_election_on(world: World, broker: Broker) -> None:
    assert elected(world, broker).identity == IDENTITY


def test_no_identity_is_given_while_a_controller_of_a_version_before_is_heard(world: World, broker: Broker) -> None:
    world.founding.notified(MemberIdentity(world.led_by, frozenset(world.numbers), 1))
    assert elected(world, broker).identity == ""
    assert take_in(world, broker, 2, "theirs").refusal is None, "as by the rule of that version"


@pytest.mark.parametrize(
    ("level", "alive", "given"), [(LEVEL, False, True), (LEVEL, True, False), (ACKS_LEVEL - 1, False, False)]
)
def test_the_id_of_a_dead_replica_is_given_to_the_node_at_its_address_that_has_lost_its_directory(
    world: World, broker: Broker, level: int, alive: bool, given: bool
) -> None:
    elected(world, broker)
    take_in(world, broker, 2)
    world.founding.notified(MemberIdentity(world.led_by, frozenset(world.numbers), level))
    world.clock.run_for(heartbeats.TIMEOUT_MS + 1_000)
    if alive:
        broker.ask(HearReplica(4, GROUP, ReplicaWord(says(2)), 60_000))
        broker.take()
    broker.ask(ChangeGroup(5, ApplyId(GROUP, CLUSTER, 2, "anew", "h2:1")))
    world.clock.run_for(50)
    answer = broker.take().answer
    assert answer.refusal is (None if given else GroupRefusal.ID_TAKEN)
    assert answer.group.replica(2).node == ("anew" if given else "node-2")


@pytest.mark.parametrize("epoch", [1, 9])
def test_what_is_of_another_group_is_refused_counted_and_logged_once_with_its_address(
    world: World, broker: Broker, caplog: pytest.LogCaptureFixture, epoch: int
) -> None:
    before = elected(world, broker)
    broker.connection.host = "10.9.9.9"
    for _ in range(3):
        assert take_in(world, broker, 2, "theirs", epoch).refusal is GroupRefusal.OTHER_GROUP
    lines = [each.getMessage() for each in caplog.records if "another store group" in each.getMessage()]
    assert [line[:45] for line in lines] == ["store group broker-b: refused, from h2:1: the"]
    assert world.requests.strangers.count == 3
    caplog.clear()
    dropped = world.requests.heartbeats.dropped
    for _ in range(3):
        broker.ask(HearReplica(4, GROUP, ReplicaWord(says(1, epoch=epoch), identity="theirs"), 0))
        assert isinstance(broker.take(), Done)
    assert (world.requests.strangers.count, world.requests.heartbeats.dropped) == (6, dropped + 3)
    assert [each.getMessage()[:44] for each in caplog.records] == ["store group broker-b: refused, from 10.9.9.9"]
    group = world.requests.member and world.requests.member.groups.group(GROUP)
    assert group is not None
    assert (group.leader, group.leader_epoch, group.members) == (before.leader, before.leader_epoch, before.members)
    broker.ask(HearReplica(5, GROUP, ReplicaWord(says(1), identity=IDENTITY), 0))
    assert world.requests.strangers.count == 6


def test_a_greeting_is_answered_with_who_this_one_is(world: World, broker: Broker) -> None:
    broker.ask(GreetController(1, 9, (1, 2)))
    assert broker.take() == ControllerGreeted(1, world.led_by, (1, 2, 3), level=LEVEL)
    assert world.greetings == [MemberIdentity(9, frozenset({1, 2}), 0)]


def test_leadership_leaves_a_leader_that_is_slow_and_it_is_not_preferred_until_it_is_well(world: World) -> None:
    brokers = {each: world.broker() for each in (1, 2, 3)}
    figures = dict.fromkeys(brokers, ReplicaFigures(3_000))

    def pass_by(seconds: int) -> None:
        for _ in range(seconds):
            for number, broker in brokers.items():
                broker.ask(HearReplica(0, NAME, ReplicaWord(says(number), figures=figures[number]), 0))
            world.clock.run_for(1_000)

    def group() -> StoreGroup:
        assert world.requests.member is not None
        found = world.requests.member.groups.group(NAME)
        assert found is not None
        return found

    grow = ChangeGroup(1, AlterSet(NAME, 1, group().leader_epoch, group().set_epoch, members(1, 2, 3)))
    pass_by(1)
    brokers[1].ask(grow)
    pass_by(RECENT + PAST_MIN)
    assert (group().leader, group().in_sync) == (1, (1, 2, 3))
    figures[1] = ReplicaFigures(900_000)
    pass_by(20)
    after = group()
    assert after.leader in (2, 3)
    assert after.in_sync == (1, 2, 3), "who is slow stays in sync"
    other = ({2, 3} - {after.leader}).pop()
    brokers.pop(after.leader).connection.end()
    pass_by(15)
    assert group().leader == other, "the slow one has the lower id, and is passed over"
    world.requests.close()
    lines = record.read(world.disk)
    assert [line["move"] for line in lines if "move" in line] == [[NAME, 1, after.leader]]


def test_figures_of_made_up_groups_are_not_kept(world: World, broker: Broker) -> None:
    for number in range(1_000):
        broker.ask(HearReplica(1, f"made-up-{number}", ReplicaWord(says(1), figures=ReplicaFigures(1)), 0))
    world.clock.run_for(2_000)
    world.requests.close()
    assert not [line for line in record.read(world.disk) if "figures" in line]


def test_states_of_a_group_say_which_is_newer(world: World, broker: Broker) -> None:
    orders: list[int] = []
    for ticket, change in enumerate(
        (ApplyId(GROUP, CLUSTER, 1, "node-1", "h1:1"), SetMinInSync(GROUP, 2), SetMinInSync(GROUP, 1))
    ):
        broker.ask(ChangeGroup(ticket, change))
        world.clock.run_for(50)
        orders.append(broker.take().answer.group.order)
    broker.ask(ListStoreGroups(9))
    world.clock.run_for(50)
    orders.append(broker.take().groups[0][0].order)
    assert 0 < orders[0] < orders[1] < orders[2] <= orders[3]
