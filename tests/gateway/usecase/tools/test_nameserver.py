"""The name server over the real store: routes of this node, routes of registered brokers, and durable settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from domain.address import host_bytes
from domain.admin.broker import ChangeNodePolicy
from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.command import Command, Disconnected
from domain.errors import ErrorCode
from domain.event import Done, Event, Refused
from domain.nameserver.route import (
    ORDER_KEY,
    OWN_NAMESPACE,
    BrokerAddresses,
    BrokerRegistered,
    BrokerRenewed,
    ClusterFound,
    DataVersion,
    DropRoute,
    ListRoutes,
    PageRegistered,
    PutSetting,
    QueryCluster,
    QueryRoute,
    QuerySettings,
    RegisterBroker,
    RegisterPage,
    Registration,
    RenewBroker,
    RouteFound,
    RouteNames,
    SettingsFound,
    SetWritable,
    TopicPage,
    TopicQueues,
    UnregisterBroker,
    WritableChanged,
)
from domain.store.store_event import unheard
from domain.topic.topic import Group, Topic
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.tools.nameserver import NameServer
from gateway.usecase.tools.node_policy import PolicyChanging
from gateway.usecase.tools.own_routes import OwnRoutes
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.waiting.long_questions import LongQuestions
from nameserver.stored_settings import StoredSettings
from nameserver.table import RouteTable
from store.engine import open_store
from store.settings import StoreSettings
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import FixedEntropy

THEIRS = dict.fromkeys(("T", "U"), TopicQueues("b-x", 4, 4, 6))
OUTSIDE = Registration("c2", "b-x", 0, "x:1", "x:2", 30_000, version=DataVersion(1, 2, 3), topics=THEIRS)
OWN = BrokerAddresses("c1", "b-a", {0: ""})


@dataclass
class Place:
    """A name server over a store in memory."""

    clock: VirtualClock
    disk: MemoryDisk
    handler: Dispatcher

    def ask(self, command: Command) -> Event:
        recorder = EventRecorder()
        self.handler.handle(recorder.connection, command)
        self.clock.run_for(20)
        (event,) = recorder.take()
        return event

    def route(self, topic: str) -> RouteFound:
        event = self.ask(QueryRoute(1, topic))
        assert isinstance(event, RouteFound), event
        return event


def opened(clock: VirtualClock, disk: MemoryDisk) -> Place:
    store = open_store(disk, clock, StoreSettings(broker="b-a", store_host=host_bytes("127.0.0.1", 10911)), unheard)
    policy = NodePolicy()
    handler = Dispatcher(
        store=store, clock=clock, entropy=FixedEntropy(), cluster="c1", broker="b-a",
        policy=policy,
    )  # fmt: skip
    handler.add(
        NameServer(
            RouteTable(),
            StoredSettings(store.state),
            clock,
            handler.questions,
            OwnRoutes("c1", "b-a", store.metadata, policy),
        ),
        PolicyChanging(policy, store.transactions.check_policy, store.metadata, None),
    )
    clock.run_for(50)
    return Place(clock, disk, handler)


@pytest.fixture
def place() -> Place:
    clock = VirtualClock()
    return opened(clock, MemoryDisk(clock))


def refused(event: Event) -> ErrorCode:
    assert isinstance(event, Refused), event
    assert event.failure.text
    return event.failure.code


def test_a_topic_has_a_route_as_soon_as_it_exists(place: Place) -> None:
    assert refused(place.ask(QueryRoute(1, "T"))) is ErrorCode.TOPIC_NOT_FOUND
    place.ask(PutTopic(1, Topic("T", 8, 4)))
    found = place.route("T")
    assert found.queues == [TopicQueues("b-a", 8, 4, 6)]
    assert found.brokers == [OWN]


@pytest.mark.parametrize("name", ["TBW102", "c1", "b-a", "c1_REPLY_TOPIC", "%RETRY%anything"])
def test_names_that_clients_and_tools_rely_on_have_routes(place: Place, name: str) -> None:
    assert place.route(name).brokers == [OWN]


def test_a_retry_topic_has_the_route_that_it_will_have_before_it_is_made(place: Place) -> None:
    place.ask(PutGroup(1, Group("g", retry_queues=3)))
    assert place.route("%RETRY%g").queues == [TopicQueues("b-a", 3, 3, 6)]
    assert place.route("%RETRY%other").queues == [TopicQueues("b-a", 1, 1, 6)]


def test_a_retry_topic_of_no_group_has_none(place: Place) -> None:
    assert refused(place.ask(QueryRoute(1, "%RETRY%../g"))) is ErrorCode.TOPIC_NOT_FOUND


def test_brokers_outside_stand_beside_our_own(place: Place) -> None:
    place.ask(PutTopic(1, Topic("T", 8, 8)))
    assert isinstance(place.ask(RegisterBroker(1, OUTSIDE)), BrokerRegistered)
    assert [each.broker for each in place.route("T").queues] == ["b-a", "b-x"]
    cluster = place.ask(QueryCluster(1))
    assert isinstance(cluster, ClusterFound)
    assert cluster.brokers == [OWN, BrokerAddresses("c2", "b-x", {0: "x:1"})]
    names = place.ask(ListRoutes(1, "c2"))
    assert names == RouteNames(1, ["T", "U"])
    place.ask(DropRoute(1, "T", "c2"))
    assert [each.broker for each in place.route("T").queues] == ["b-a"]


def test_a_silent_broker_is_gone_after_its_lease(place: Place) -> None:
    place.ask(RegisterBroker(1, OUTSIDE))
    place.clock.run_for(25_000)
    assert place.ask(RenewBroker(1, "c2", "b-x", "x:1")) == BrokerRenewed(1, False, DataVersion(1, 2, 3))
    place.clock.run_for(25_000)
    assert [each.broker for each in place.route("T").queues] == ["b-x"]
    place.clock.run_for(10_000)
    assert refused(place.ask(QueryRoute(1, "T"))) is ErrorCode.TOPIC_NOT_FOUND
    assert place.ask(RenewBroker(1, "c2", "b-x", "x:1")) == BrokerRenewed(1, True, None)


def test_a_broker_learns_whether_it_has_to_register_again(place: Place) -> None:
    place.ask(RegisterBroker(1, OUTSIDE))
    assert place.ask(RenewBroker(1, "c2", "b-x", "x:1", DataVersion(1, 2, 3))) == BrokerRenewed(1, False, DataVersion(1, 2, 3))
    assert place.ask(RenewBroker(1, "c2", "b-x", "x:1", DataVersion(1, 2, 4))) == BrokerRenewed(1, True, DataVersion(1, 2, 3))
    assert isinstance(place.ask(UnregisterBroker(1, "c2", "b-x", 0, "x:1")), Done)
    assert refused(place.ask(QueryRoute(1, "T"))) is ErrorCode.TOPIC_NOT_FOUND


def test_nobody_takes_this_nodes_own_name(place: Place) -> None:
    event = place.ask(RegisterBroker(1, Registration("c1", "b-a", 0, "evil:1")))
    assert refused(event) is ErrorCode.NOT_ALLOWED


def page(
    number: int, last: bool, *names: str, base: int | None = None, counter: int = 7, gone: tuple[str, ...] = ()
) -> RegisterPage:
    version = DataVersion(0, 5, counter)
    topics = {name: TopicQueues("b-x", 4, 4, 6) for name in names}
    return RegisterPage(1, replace(OUTSIDE, topics=None, version=version), TopicPage(number, base, last, topics, gone))


def test_a_broker_registers_by_pages_and_by_what_has_changed(place: Place) -> None:
    assert place.ask(page(0, False, "A")) == PageRegistered(1, True)
    assert [each.broker for each in place.route("A").queues] == ["b-x"]
    assert place.ask(page(1, True, "B")) == PageRegistered(1, True)
    assert place.ask(RenewBroker(1, "c2", "b-x", "x:1", DataVersion(0, 5, 7))) == BrokerRenewed(1, False, DataVersion(0, 5, 7))
    assert place.ask(page(0, True, base=6, counter=8)) == PageRegistered(1, False)
    assert place.ask(page(0, True, "C", base=7, counter=8, gone=("A",))) == PageRegistered(1, True)
    assert place.ask(ListRoutes(1, "c2")) == RouteNames(1, ["B", "C"])
    assert refused(place.ask(replace(page(0, True), registration=replace(OUTSIDE, broker="b-a")))) is ErrorCode.NOT_ALLOWED


def test_a_broker_whose_connection_ends_is_gone_unless_it_came_back_by_another(place: Place) -> None:
    first, second, third = EventRecorder(), EventRecorder(), EventRecorder()
    place.handler.handle(first.connection, RegisterBroker(1, OUTSIDE))
    place.handler.handle(first.connection, RegisterBroker(1, replace(OUTSIDE, broker="b-y", address="y:1")))
    place.handler.handle(second.connection, RegisterBroker(1, OUTSIDE))
    place.handler.handle(first.connection, Disconnected("end-of-stream"))
    assert [each.broker for each in place.route("T").brokers] == ["b-x"]
    place.handler.handle(third.connection, page(0, True, "T"))
    place.handler.handle(second.connection, Disconnected("end-of-stream"))
    assert [each.broker for each in place.route("T").brokers] == ["b-x"]
    place.handler.handle(third.connection, Disconnected("end-of-stream"))
    assert refused(place.ask(QueryRoute(1, "T"))) is ErrorCode.TOPIC_NOT_FOUND


def test_a_name_server_alone_knows_registered_brokers_only() -> None:
    clock = VirtualClock()
    settings = StoreSettings(broker="b-a", store_host=host_bytes("127.0.0.1", 10911))
    store = open_store(MemoryDisk(clock), clock, settings, unheard)
    alone = NameServer(RouteTable(), StoredSettings(store.state), clock, LongQuestions(clock))
    recorder = EventRecorder()

    def ask(command: Command) -> Event:
        alone.verbs[type(command)](recorder.connection, command)
        clock.run_for(20)
        (event,) = recorder.take()
        return event

    assert ask(QueryCluster(1)) == ClusterFound(1, [])
    assert refused(ask(QueryRoute(1, "%RETRY%g"))) is ErrorCode.TOPIC_NOT_FOUND
    assert isinstance(ask(RegisterBroker(1, replace(OUTSIDE, broker="b-a"))), BrokerRegistered)
    found = ask(QueryRoute(1, "T"))
    assert isinstance(found, RouteFound)
    assert found.brokers == [BrokerAddresses("c2", "b-a", {0: "x:1"})]
    assert ask(ListRoutes(1)) == RouteNames(1, ["T", "U"])
    assert ask(SetWritable(1, "b-a", False)) == WritableChanged(1, 2)


def test_a_change_of_one_topic_of_a_broker_that_is_not_registered_is_refused(place: Place) -> None:
    one = replace(OUTSIDE, topics={"T": TopicQueues("b-x", 4, 4, 6)})
    assert refused(place.ask(RegisterBroker(1, one))) is ErrorCode.CLIENT_UNKNOWN
    assert isinstance(place.ask(RegisterBroker(1, OUTSIDE)), BrokerRegistered)
    assert isinstance(place.ask(RegisterBroker(1, one)), BrokerRegistered)


def test_a_slave_is_told_its_master(place: Place) -> None:
    place.ask(RegisterBroker(1, OUTSIDE))
    slave = Registration("c2", "b-x", 1, "s:1", version=DataVersion(1, 2, 3))
    assert place.ask(RegisterBroker(1, slave)) == BrokerRegistered(1, "x:1", "x:2", {})


def test_write_permission(place: Place) -> None:
    place.ask(RegisterBroker(1, OUTSIDE))
    assert place.ask(SetWritable(1, "b-x", False)) == WritableChanged(1, 2)
    assert place.route("T").queues[0].perm == 4
    own = place.ask(SetWritable(1, "b-a", False))
    assert isinstance(own, WritableChanged)
    assert own.count >= 1
    assert place.route("TBW102").queues[0].perm == 5
    place.ask(SetWritable(1, "b-a", True))
    assert place.route("TBW102").queues[0].perm == 7


def test_keys_survive_a_restart_and_order_reaches_routes(place: Place) -> None:
    place.ask(PutTopic(1, Topic("T", 8, 8)))
    assert isinstance(place.ask(PutSetting(1, "ORDER_TOPIC_CONFIG", "T", "b-a:8")), Done)
    assert isinstance(place.ask(PutSetting(1, "n", "k", "v")), Done)
    again = opened(place.clock, place.disk)
    assert again.route("T").order == "b-a:8"
    assert isinstance(again.ask(PutSetting(1, OWN_NAMESPACE, ORDER_KEY, "false")), Done)
    assert again.route("T").order == ""
    assert isinstance(again.ask(PutSetting(1, OWN_NAMESPACE, ORDER_KEY, "true")), Done)
    assert again.route("T").order == "b-a:8"
    assert again.ask(QuerySettings(1, "n")) == SettingsFound(1, {"k": "v"})
    assert isinstance(again.ask(PutSetting(1, "n", "k", None)), Done)
    assert again.ask(QuerySettings(1, "n", "k")) == SettingsFound(1, {})
    assert refused(again.ask(PutSetting(1, "", "k", "v"))) is ErrorCode.ARGUMENT_ILLEGAL
    assert refused(again.ask(PutSetting(1, "n", "k", "v" * 70_000))) is ErrorCode.ARGUMENT_ILLEGAL


def test_routes_have_no_more_rights_than_the_broker_and_its_change_ends_what_was_wiped(place: Place) -> None:
    place.ask(PutTopic(1, Topic("T", 1, 1)))
    for permission, ordinary, template in (("4", 4, 4), ("2", 2, 2), ("6", 6, 7)):
        assert isinstance(place.ask(ChangeNodePolicy(1, {"permission": permission})), Done)
        assert (place.route("T").queues[0].perm, place.route("TBW102").queues[0].perm) == (ordinary, template)
    place.ask(SetWritable(1, "b-a", False))
    assert place.route("T").queues[0].perm == 4
    place.ask(ChangeNodePolicy(1, {"permission": "4"}))
    place.ask(SetWritable(1, "b-a", True))
    assert place.route("T").queues[0].perm == 4
    place.ask(ChangeNodePolicy(1, {"permission": "6"}))
    assert place.route("T").queues[0].perm == 6
    place.ask(SetWritable(1, "b-a", False))
    place.ask(ChangeNodePolicy(1, {"permission": "2"}))
    assert place.route("T").queues[0].perm == 2
