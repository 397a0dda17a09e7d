"""Topics and groups as the cluster has them, and commands that wait until they are known."""

from __future__ import annotations

import orjson
import pytest

from domain.client.membership import Heartbeat, Membership
from domain.command import Command, Disconnected, Receive, Send, Watch
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.message.message import Message
from domain.topic.topic import Durability, Group, Topic
from domain.transaction import COMMIT, EndTransaction
from domain.turn import WALKS_NS
from domain.walk import STEP_NS, Walks
from gateway.apache.topics.await_metadata import AwaitMetadata
from gateway.apache.topics.broker_capabilities import ALWAYS, IN_SYNC, NEVER, CapabilityFinding, ClusterCapabilities
from gateway.apache.topics.capability_watch import PERIOD_NS, UNTOLD_NS, CapabilityWatch
from gateway.apache.topics.metadata import RocketmqMetadata
from gateway.connection.client_connection import ClientConnection
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.connection_driver import RecordingDriver
from tests.gateway.apache.scripted_cluster import Reply
from tests.gateway.brokers.test_live_tail import World as TailWorld


class World(TailWorld):
    """A handler in front of nothing, over a scripted cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata = RocketmqMetadata(self.servers, self.map, self.clock, ("DefaultCluster",))
        self.handled: list[Command] = []
        self.front = AwaitMetadata(self, self.metadata, self.tail, Walks(self.clock))
        self.driver_of = RecordingDriver()
        self.connection = ClientConnection("http", self.driver_of)
        self.groups: dict[str, dict[str, dict[str, object]]] = {name: {} for name in self.cluster.brokers}
        self.no_group: Reply = codes.GROUP_NOT_EXIST, {"a": "b"}, b""
        self.attributes: dict[str, str] = {}
        for name, server in self.cluster.brokers.items():
            server.on(codes.GET_TOPIC, lambda frame: (0, {"a": "b"}, orjson.dumps({"attributes": self.attributes})))
            server.on(codes.GET_GROUP, lambda frame, name=name: self.tell_group(name, frame))  # type: ignore[misc]
            server.on(codes.UPDATE_GROUP, lambda frame, name=name: self.take_group(name, frame))  # type: ignore[misc]
            server.on(codes.UPDATE_TOPIC, self.take_topic)
        self.clock.run_for(100)

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """What comes through."""
        self.handled.append(command)

    def tell_group(self, broker: str, frame: Frame) -> Reply:
        found = self.groups[broker].get((frame.fields() or {})["group"])
        return self.no_group if found is None else (0, {"a": "b"}, orjson.dumps(found))

    def take_group(self, broker: str, frame: Frame) -> Reply:
        found = orjson.loads(frame.body)
        self.groups[broker][found["groupName"]] = found
        return 0, {"a": "b"}, b""

    def take_topic(self, frame: Frame) -> Reply:
        fields = frame.fields() or {}
        queues = (int(fields["readQueueNums"]), int(fields["writeQueueNums"]), int(fields["perm"]))
        self.cluster.topics.setdefault(fields["topic"], {})[fields["bname"]] = queues
        return 0, {"a": "b"}, b""

    def send(self, topic: str, ticket: int = 1) -> None:
        self.front.handle(self.connection, Send(ticket, [Message(topic, b"x")]))

    def refusals(self) -> list[ErrorCode]:
        return [event.failure.code for event in self.driver_of.recorded if isinstance(event, Refused)]


@pytest.fixture
def world() -> World:
    return World()


def test_a_command_waits_until_its_topic_is_known_and_those_behind_it_too(world: World) -> None:
    world.send("T", 1)
    world.send("T", 2)
    world.front.handle(world.connection, Disconnected("end of stream"))
    assert world.handled == []
    world.clock.run_for(100)
    assert [getattr(each, "ticket", None) for each in world.handled] == [1, 2, None]
    world.send("T", 3)
    assert len(world.handled) == 4


def test_a_topic_that_nobody_knows_is_for_the_use_case_to_create(world: World) -> None:
    world.send("nobody")
    world.clock.run_for(100)
    assert len(world.handled) == 1
    assert world.metadata.topic("nobody") is None


def test_any_number_of_held_commands_is_passed_on_in_order_and_not_in_one_turn(world: World) -> None:
    """The topic is known to be unknown after the first answer, so that all others are answered at once."""
    for ticket in range(3_000):
        world.send("nobody", ticket)
    turns: list[int] = []
    while len(world.handled) < 3_000:
        before = len(world.handled)
        world.clock.run_until(lambda before=before: len(world.handled) > before)  # type: ignore[misc]
        turns.append(len(world.handled) - before)
    assert [each.ticket for each in world.handled if isinstance(each, Send)] == list(range(3_000))
    assert max(turns) <= WALKS_NS // STEP_NS, turns
    world.send("T", 3_001)
    world.clock.run_for(1_000)
    assert len(world.handled) == 3_001, "the connection is not held for ever"


def test_what_cannot_be_asked_is_refused(world: World) -> None:
    world.cluster.nameserver.stop()
    world.send("other")
    world.clock.run_for(4_000)
    assert world.refusals() == [ErrorCode.STORE_UNAVAILABLE]
    assert world.handled == []


def test_a_lite_topic_of_the_cluster_is_refused_by_name(world: World) -> None:
    world.attributes = {"message.type": "LITE"}
    world.send("T")
    world.clock.run_for(100)
    assert world.refusals() == [ErrorCode.NOT_SUPPORTED]


@pytest.mark.parametrize("old", [False, True])
def test_a_group_that_one_broker_knows_is_made_at_the_others(world: World, old: bool) -> None:
    """Brokers of 5.0 to 5.3.2 have no code of their own for a group that is not there."""
    if old:
        world.no_group = codes.SYSTEM_ERROR, {"a": "b"}, b"", "No group in this broker"
    world.groups["broker-a"]["g"] = {"groupName": "g", "retryMaxTimes": 3, "consumeMessageOrderly": True}
    world.front.handle(world.connection, Receive(1, "g", "T", 1, 10_000, 0))
    world.clock.run_for(100)
    assert len(world.handled) == 1
    group = world.metadata.group("g")
    assert group is not None
    assert (group.retry_max, group.orderly) == (3, True)
    assert world.groups["broker-b"]["g"]["retryMaxTimes"] == 3


@pytest.mark.parametrize(("remark", "code"), [("No group in this broker", None), ("broken", ErrorCode.STORE_UNAVAILABLE)])
def test_a_group_that_no_broker_of_5_0_to_5_3_2_knows_may_be_made(world: World, remark: str, code: ErrorCode | None) -> None:
    world.no_group = codes.SYSTEM_ERROR, {"a": "b"}, b"", remark
    failure = world.driver.call(world.metadata.known_groups.ensure, "new")
    assert (None if failure is None else failure.code) is code
    assert world.metadata.group("new") is None


def test_a_group_of_producers_is_not_asked_for(world: World) -> None:
    world.front.handle(world.connection, EndTransaction(1, "producers", "ID", COMMIT))
    world.clock.run_for(100)
    assert len(world.handled) == 1
    assert codes.GET_GROUP not in world.cluster.brokers["broker-a"].codes()


def test_a_heartbeat_waits_for_the_groups_that_it_consumes_and_not_for_those_it_produces(world: World) -> None:
    """A group that is not known would be made with the defaults, over what the brokers have of it."""
    for broker in ("broker-a", "broker-b"):
        world.groups[broker]["g"] = {"groupName": "g", "retryMaxTimes": 3}
    world.front.handle(world.connection, Heartbeat(1, "client", ["producers"], [Membership("g")]))
    assert world.handled == []
    world.clock.run_for(100)
    assert len(world.handled) == 1
    group = world.metadata.group("g")
    assert group is not None
    assert group.retry_max == 3
    asked = [frame for frame in world.cluster.brokers["broker-a"].requests if frame.code == codes.GET_GROUP]
    assert [(frame.fields() or {})["group"] for frame in asked] == ["g"]


def test_a_watch_is_carried_out_when_its_tail_has_begun(world: World) -> None:
    world.front.handle(world.connection, Watch(1, "T/#"))
    assert world.handled == []
    world.clock.run_for(100)
    assert len(world.handled) == 1
    assert world.tail.figures()["rocketmq_tailed_topics"] == 1


def test_a_new_topic_is_made_at_every_broker_and_known_when_name_servers_tell_it(world: World) -> None:
    assert world.driver.call(world.metadata.put_topic, Topic("made", 8, 8, type="FIFO")) is None
    assert world.cluster.topics["made"] == {"broker-a": (4, 4, 6), "broker-b": (4, 4, 6)}
    found = world.metadata.topic("made")
    assert found is not None
    assert (found.read_queues, found.perm) == (8, 6)
    requests = [each for each in world.cluster.brokers["broker-a"].requests if each.code == codes.UPDATE_TOPIC]
    assert (requests[0].fields() or {})["attributes"] == "+message.type=FIFO"


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        (Topic("x", type="LITE"), "LITE"),
        (Topic("x", type="PRIORITY"), "PRIORITY"),
        (Topic("x", retention_ms=1), "retention_ms"),
        (Topic("x", retention_bytes=1), "retention_bytes"),
        (Topic("x", attributes={"deduplication": "id"}), "deduplication"),
    ],
)
def test_what_a_cluster_has_no_place_for_is_refused_by_name(world: World, topic: Topic, text: str) -> None:
    failure = world.driver.call(world.metadata.put_topic, topic)
    assert isinstance(failure, Failure)
    assert failure.code is ErrorCode.NOT_SUPPORTED
    assert text in failure.text


def test_topics_of_the_cluster_itself_are_left_alone(world: World) -> None:
    for name in ("DefaultCluster", "broker-a", "TBW102", "RMQ_SYS_TRACE_TOPIC"):
        assert world.driver.call(world.metadata.put_topic, Topic(name)) is None
        assert world.metadata.topic(name) is None
    assert codes.UPDATE_TOPIC not in world.cluster.brokers["broker-a"].codes()


def test_all_topics_of_the_cluster_become_known(world: World) -> None:
    names = orjson.dumps({"topicList": ["T", "U", "broker-a"]})
    world.cluster.topics["U"] = {"broker-a": (1, 1, 6)}
    world.cluster.nameserver.on(codes.GET_TOPICS, lambda frame: (0, {"a": "b"}, names))
    world.metadata.start()
    world.clock.run_for(100)
    assert world.metadata.topic_names() == ["T", "U"]


def test_a_deleted_topic_is_told_to_brokers_and_name_servers(world: World) -> None:
    assert world.driver.call(world.metadata.ensure_topic, "T") is None

    def delete(frame: Frame) -> Reply:
        world.cluster.topics.pop("T", None)
        return 0, {"a": "b"}, b""

    for server in world.cluster.brokers.values():
        server.on(codes.DELETE_TOPIC, delete)
    world.cluster.nameserver.on(codes.DELETE_TOPIC_ROUTE, delete)
    assert world.driver.call(world.metadata.delete_topic, "T") is None
    world.clock.run_for(1_500)
    assert world.metadata.topic("T") is None
    assert codes.DELETE_TOPIC_ROUTE in world.cluster.nameserver.codes()


def test_a_group_that_is_put_is_put_at_every_broker(world: World) -> None:
    assert world.driver.call(world.metadata.put_group, Group("mine", orderly=True)) is None
    assert [each["mine"]["consumeMessageOrderly"] for each in world.groups.values()] == [True, True]


def facts_of(world: World, version: str = "V5_5_0", **settings: str) -> ClusterCapabilities:
    """What the start finds when brokers have these settings."""
    for name, server in world.cluster.brokers.items():
        told = {"brokerName": name, "brokerClusterName": "DefaultCluster", "flushDiskType": "SYNC_FLUSH", **settings}
        text = "".join(f"{key}={value}\n" for key, value in told.items()).encode()
        server.on(codes.GET_BROKER_CONFIG, lambda frame, text=text: (0, {"a": "b"}, text))  # type: ignore[misc]
        table = orjson.dumps({"table": {"brokerVersionDesc": version}})
        server.on(codes.GET_RUNTIME_INFO, lambda frame, table=table: (0, {"a": "b"}, table))  # type: ignore[misc]
    found: list[ClusterCapabilities] = []
    CapabilityFinding(world.servers, world.map).start(found.append)
    world.clock.run_until(lambda: bool(found))
    return found[0]


def test_the_promise_is_what_the_brokers_settings_say(world: World) -> None:
    facts = facts_of(world, brokerRole="SYNC_MASTER", timerWheelEnable="true", enablePropertyFilter="true")
    assert facts.durability is Durability.FLUSHED
    assert "power loss" in facts.promise()
    assert not [each for each in facts.missing() if "SQL92" in each]
    weak = facts_of(world, flushDiskType="ASYNC_FLUSH", brokerRole="ASYNC_MASTER")
    assert weak.durability is Durability.PAGE
    assert "power loss" not in weak.promise()
    assert [each for each in weak.missing() if "SQL92" in each and "broker-a, broker-b" in each]


@pytest.mark.parametrize(
    ("settings", "copies"),
    [
        ({"brokerRole": "ASYNC_MASTER", "inSyncReplicas": "2"}, NEVER),
        ({"brokerRole": "SYNC_MASTER"}, NEVER),
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "1"}, NEVER),
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}, ALWAYS),
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "many"}, NEVER),
        ({"brokerRole": "SYNC_MASTER", "version": "V4_9_8"}, ALWAYS),
        ({"brokerRole": "SYNC_MASTER", "enableControllerMode": "true", "minInSyncReplicas": "2"}, NEVER),
        ({"brokerRole": "SYNC_MASTER", "enableControllerMode": "true", "inSyncReplicas": "2"}, ALWAYS),
        ({"brokerRole": "SYNC_MASTER", "enableControllerMode": "true", "allAckInSyncStateSet": "true"}, IN_SYNC),
        (
            {
                "brokerRole": "SYNC_MASTER", "enableControllerMode": "true", "allAckInSyncStateSet": "true",
                "minInSyncReplicas": "2",
            },
            ALWAYS,
        ),
        ({"brokerRole": "SYNC_MASTER", "enableSlaveActingMaster": "true", "inSyncReplicas": "2"}, ALWAYS),
        (
            {
                "brokerRole": "SYNC_MASTER", "enableSlaveActingMaster": "true", "inSyncReplicas": "2",
                "enableAutoInSyncReplicas": "true",
            },
            IN_SYNC,
        ),
    ],
)  # fmt: skip
def test_a_broker_waits_for_a_replica_when_all_of_its_settings_say_so(
    world: World, settings: dict[str, str], copies: int
) -> None:
    facts = facts_of(world, **settings)
    assert facts.copies == copies
    assert ("with its disk" in facts.promise()) is (copies != NEVER)
    assert ("while a replica is in sync" in facts.promise()) is (copies == IN_SYNC)
    is_alone = settings["brokerRole"] == "SYNC_MASTER" and copies == NEVER
    assert ("waits for no replica" in facts.promise()) is is_alone


@pytest.mark.parametrize(
    ("version", "missing"),
    [
        ("V4_9_7", {"delays", "recall", "message-level"}),
        ("V5_1_4", {"recall"}),
        ("V5_3_1", {"recall"}),
        ("V5_3_2", set()),
        ("V5_5_0", set()),
        ("HIGHER_VERSION", set()),
        ("", set()),
    ],
)
def test_what_a_version_does_not_have_is_missing_whatever_its_file_says(world: World, version: str, missing: set[str]) -> None:
    """A broker tells the settings of its file, those that it does not know too."""
    facts = facts_of(world, version, enablePropertyFilter="true", timerWheelEnable="true", recallMessageEnable="true")
    found = {each.split()[0] for each in facts.missing()} & {"SQL92", "delays", "recall", "message-level"}
    assert found == missing


def test_a_broker_that_tells_its_settings_later_is_told_of_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """As one that has just started, and one whose settings are changed while it runs."""
    caplog.set_level("INFO", "headgate.rocketmq")
    found: list[ClusterCapabilities] = []
    CapabilityFinding(world.servers, world.map).start(found.append)
    world.clock.run_until(lambda: bool(found))
    changed: list[ClusterCapabilities] = []
    watch = CapabilityWatch(world.servers, world.map, world.clock, found[0], changed.append)
    watch.start()
    facts_of(world)
    world.clock.run_for(PERIOD_NS // 1_000_000 + 100)
    assert [each.durability for each in changed] == [Durability.FLUSHED]
    assert "power loss" in caplog.text
    assert watch.facts is changed[0]
    for server in world.cluster.brokers.values():
        server.silent = True
    world.clock.run_for(PERIOD_NS // 1_000_000 + 10_000)
    assert len(changed) == 1, "what does not answer is as it was"
    for server in world.cluster.brokers.values():
        server.silent = False
    facts_of(world, flushDiskType="ASYNC_FLUSH")
    world.clock.run_for(PERIOD_NS // 1_000_000 + 10_000)
    assert [each.durability for each in changed] == [Durability.FLUSHED, Durability.PAGE]
    watch.stop()
    facts_of(world)
    world.clock.run_for(2 * PERIOD_NS // 1_000_000)
    assert len(changed) == 2


def test_a_broker_that_did_not_answer_at_the_start_is_asked_soon_again(world: World) -> None:
    """One that listens before it serves."""
    for server in world.cluster.brokers.values():
        server.silent = True
    found: list[ClusterCapabilities] = []
    CapabilityFinding(world.servers, world.map).start(found.append)
    world.clock.run_until(lambda: bool(found))
    assert all(each.silent for each in found[0].brokers)
    changed: list[ClusterCapabilities] = []
    CapabilityWatch(world.servers, world.map, world.clock, found[0], changed.append).start()
    for server in world.cluster.brokers.values():
        server.silent = False
    facts_of(world)
    world.clock.run_for(2 * UNTOLD_NS // 1_000_000 + 1_000)
    assert [each.durability for each in changed] == [Durability.FLUSHED]


def test_a_broker_of_another_cluster_is_not_asked(world: World) -> None:
    facts = facts_of(world, brokerClusterName="Another")
    assert "Another" in facts.brokers[0].fault
    world.clock.run_for(3_000)
    assert world.servers.address("broker-a") == ""
    assert "Another" in world.servers.waits("broker-a")


def test_a_broker_that_is_mended_is_asked_again_without_a_restart(world: World, caplog: pytest.LogCaptureFixture) -> None:
    changed: list[ClusterCapabilities] = []
    watch = CapabilityWatch(world.servers, world.map, world.clock, facts_of(world, brokerName="renamed"), changed.append)
    watch.start()
    assert "renamed" in world.servers.waits("broker-a")
    answers: list[object] = []
    world.servers.ask("broker-a", Request(codes.GET_TOPIC, {"topic": "T"}), answers.append)
    assert isinstance(answers[0], Failure)
    caplog.set_level("INFO")
    facts_of(world)
    world.clock.run_for(PERIOD_NS // 1_000_000 + 1_000)
    assert (world.servers.waits("broker-a"), world.servers.address("broker-a")) == ("", "10.0.0.1:10911")
    assert caplog.text.count("broker broker-a is what the name servers report again") == 1
    assert [each.fault for each in changed[-1].brokers] == ["", ""]
    world.servers.ask("broker-a", Request(codes.GET_TOPIC, {"topic": "T"}), answers.append)
    world.clock.run_for(20)
    assert isinstance(answers[1], Frame)


def test_a_refused_broker_is_examined_and_stays_refused_while_its_name_is_wrong(world: World) -> None:
    watch = CapabilityWatch(world.servers, world.map, world.clock, facts_of(world, brokerName="renamed"), lambda _: None)
    watch.start()
    asked = world.cluster.brokers["broker-a"].codes().count(codes.GET_BROKER_CONFIG)
    world.clock.run_for(3 * PERIOD_NS // 1_000_000 + 1_000)
    assert world.cluster.brokers["broker-a"].codes().count(codes.GET_BROKER_CONFIG) == asked + 3
    assert "renamed" in world.servers.waits("broker-a")


@pytest.mark.parametrize(
    ("runtime", "shown"),
    [
        ("[ 1 days, 2 hours, 3 minutes, 4 seconds ]", 5_000 + 93_784_000),
        ("[ 1,234 days, 0 hours, 0 minutes, 0 seconds ]", 5_000 + 1_234 * 86_400_000),
        ("1000 ms", 6_000), ("[ 1 days ]", None), ("", None), ("soon", None),
    ],
)  # fmt: skip
def test_the_start_shows_the_clocks_of_brokers(world: World, runtime: str, shown: int | None) -> None:
    facts_of(world)
    told = orjson.dumps({"table": {"brokerVersionDesc": "V5_5_0", "bootTimestamp": "5000", "runtime": runtime}})
    world.cluster.brokers["broker-a"].on(codes.GET_RUNTIME_INFO, lambda frame: (0, {"a": "b"}, told))
    found: list[ClusterCapabilities] = []
    CapabilityFinding(world.servers, world.map).start(found.append)
    world.clock.run_until(lambda: bool(found))
    assert world.servers.clocks.wall_ms("broker-a") == shown
    assert world.servers.clocks.wall_ms("broker-b") is None


def test_a_broker_that_tells_nothing_is_used_all_the_same(world: World) -> None:
    found: list[ClusterCapabilities] = []
    CapabilityFinding(world.servers, world.map).start(found.append)
    world.clock.run_until(lambda: bool(found))
    assert [each.version for each in found[0].brokers] == ["", ""]
    assert world.servers.address("broker-a")


@pytest.mark.parametrize(
    ("remark", "refuses"), [("check signature failed.", True), ("User:g has no permission to access", False)]
)
def test_a_node_that_no_broker_knows_is_told_from_one_that_may_not_read_settings(
    world: World, remark: str, refuses: bool
) -> None:
    for server in world.cluster.brokers.values():
        server.on(codes.GET_BROKER_CONFIG, lambda frame: (codes.NO_PERMISSION, {"a": "b"}, b"", remark))
    found: list[ClusterCapabilities] = []
    CapabilityFinding(world.servers, world.map).start(found.append)
    world.clock.run_until(lambda: bool(found))
    assert (remark in found[0].refusal()) is refuses
    assert all(remark in each.fault for each in found[0].brokers)
    assert "not told" in found[0].promise()
