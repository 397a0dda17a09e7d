"""What the name servers say, as brokers, topics and queues: followed within a second, kept when they lie."""

from __future__ import annotations

import orjson
import pytest

from domain.errors import ErrorCode, Failure
from domain.topic.topic import PERM_READ, PERM_WRITE
from gateway.brokers import cluster_map as maps
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.queue_numbers import BrokerQueue
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.gateway.apache.scripted_cluster import Reply, ScriptedCluster
from tests.simulation.kit.entropy import FixedEntropy
from tests.store.driver import Driver


class World:
    """A cluster of two brokers, the state of a gateway, and its map."""

    def __init__(self, driver: Driver | None = None) -> None:
        self.driver = driver or Driver()
        self.clock = self.driver.clock
        self.cluster = ScriptedCluster(self.clock)
        self.cluster.topics["T"] = {"broker-a": (2, 2, 6), "broker-b": (2, 2, 6)}
        self.servers = Brokers([("10.0.0.9", 9876)], self.cluster, self.clock, FixedEntropy())
        self.map = ClusterMap(self.servers, self.clock, self.driver.store.state)
        self.changed: list[str] = []
        self.map.follow(self.changed.append)
        self.map.start()

    def ensure(self, topic: str = "T") -> Failure | None:
        answer: Failure | None = self.driver.call(self.map.ensure, topic)
        return answer


@pytest.fixture
def world() -> World:
    return World()


def test_a_topic_is_known_once_it_was_asked_for(world: World) -> None:
    assert world.map.queues("T") == ()
    assert world.ensure() is None
    assert world.map.queues("T") == [
        BrokerQueue("broker-a", 0), BrokerQueue("broker-a", 1), BrokerQueue("broker-b", 0), BrokerQueue("broker-b", 1),
    ]  # fmt: skip
    assert world.map.place("T", "broker-b", 1) == 3
    assert world.map.brokers_of("T", PERM_READ | PERM_WRITE) == ["broker-a", "broker-b"]
    assert world.servers.address("broker-b") == "10.0.0.2:10911"
    assert world.map.topics() == ["T"]


def test_questions_for_one_topic_share_one_request(world: World) -> None:
    answers: list[Failure | None] = []
    for _ in range(10):
        world.map.ensure("T", answers.append)
    world.clock.run_for(100)
    assert answers == [None] * 10
    assert world.cluster.nameserver.codes().count(codes.GET_ROUTE) == 1


def test_a_topic_without_route_is_not_found_and_not_asked_for_at_once_again(world: World) -> None:
    for _ in range(5):
        failure = world.ensure("nobody")
        assert failure is not None
        assert failure.code is ErrorCode.TOPIC_NOT_FOUND
    assert world.cluster.nameserver.codes().count(codes.GET_ROUTE) == 1
    world.cluster.topics["nobody"] = {"broker-a": (1, 1, 6)}
    world.clock.run_for(1_100)
    assert world.ensure("nobody") is None


def test_learn_asks_again_what_was_not_found_a_moment_ago(world: World) -> None:
    assert world.ensure("new") is not None
    world.cluster.topics["new"] = {"broker-a": (1, 1, 6)}
    world.map.learn("new")
    assert world.ensure("new") is None


def test_new_queues_get_places_behind_the_old_ones_within_a_second(world: World) -> None:
    world.ensure()
    world.cluster.topics["T"]["broker-a"] = (3, 3, 6)
    world.clock.run_for(1_100)
    assert world.map.queues("T")[4] == BrokerQueue("broker-a", 2)
    assert world.map.place("T", "broker-b", 0) == 2
    assert world.changed.count("T") == 2


def test_places_stay_over_a_restart_and_while_their_broker_is_gone(world: World) -> None:
    world.ensure()
    world.cluster.topics["T"]["broker-a"] = (3, 3, 6)
    world.clock.run_for(1_100)
    before = list(world.map.queues("T"))
    world.driver.store.close()
    later = World(Driver(disk=world.driver.disk, clock=world.clock))
    later.cluster.topics["T"] = {"broker-b": (2, 2, 6), "broker-c": (1, 1, 6)}
    later.cluster.add("broker-c", "10.0.0.3", 10911)
    later.cluster.listed.add("broker-c")
    assert later.ensure() is None
    assert later.map.queues("T") == [*before, BrokerQueue("broker-c", 0)]
    assert later.map.readable("T") == [2, 3, 5]


def test_topics_that_are_gone_and_unused_are_forgotten_and_come_back_with_their_places(world: World) -> None:
    for number in range(200):
        world.cluster.topics[f"short-{number}"] = {"broker-b": (1, 1, 6)}
        world.ensure(f"short-{number}")
    world.ensure("T")
    world.cluster.topics["short-7"]["broker-a"] = (1, 1, 6)
    world.clock.run_for(2_000)
    before = list(world.map.queues("short-7"))
    assert before == [BrokerQueue("broker-b", 0), BrokerQueue("broker-a", 0)]
    for number in range(100, 200):
        del world.cluster.topics[f"short-{number}"]  # while they are in use
    world.clock.run_for(maps.USED_NS // 1_000_000 + 60_000)
    for number in range(100):
        del world.cluster.topics[f"short-{number}"]  # when nobody uses them any more
    world.clock.run_for(2 * maps.USED_NS // 1_000_000 + 60_000)
    assert list(world.map._topics) == ["T"]
    world.cluster.topics["short-7"] = {"broker-a": (1, 1, 6), "broker-b": (1, 1, 6)}
    assert world.ensure("short-7") is None
    assert world.map.queues("short-7") == before


def test_a_topic_that_nobody_uses_is_asked_for_seldom(world: World) -> None:
    world.ensure()
    world.clock.run_for(maps.USED_NS // 1_000_000 + 60_000)
    before = world.cluster.nameserver.codes().count(codes.GET_ROUTE)
    world.clock.run_for(4 * maps.USED_NS // 1_000_000)
    assert before < world.cluster.nameserver.codes().count(codes.GET_ROUTE) <= before + 4


def test_permissions_are_followed(world: World) -> None:
    world.ensure()
    world.cluster.topics["T"]["broker-a"] = (2, 2, PERM_READ)
    world.clock.run_for(1_100)
    assert world.map.writable("T") == [2, 3]
    assert world.map.readable("T") == [0, 1, 2, 3]
    assert world.map.brokers_of("T", PERM_WRITE) == ["broker-b"]


def test_read_and_write_queues_may_differ(world: World) -> None:
    world.cluster.topics["T"] = {"broker-a": (1, 3, 6), "broker-b": (0, 0, 6)}
    world.ensure()
    assert world.map.readable("T") == [0]
    assert world.map.writable("T") == [0, 1, 2]
    assert world.map.brokers_of("T", PERM_READ) == ["broker-a"]


def test_a_topic_that_is_deleted_is_gone_within_a_second(world: World) -> None:
    world.ensure()
    del world.cluster.topics["T"]
    world.clock.run_for(1_100)
    assert world.map.route("T") is None
    assert world.map.writable("T") == []
    assert world.changed.count("T") == 2


def test_a_route_stays_while_no_name_server_answers(world: World) -> None:
    world.ensure()
    world.cluster.nameserver.stop()
    world.clock.run_for(20_000)
    assert world.map.brokers_of("T") == ["broker-a", "broker-b"]
    assert "does not answer" in world.map.fault
    failure = world.ensure("other")
    assert failure is not None
    assert failure.code is ErrorCode.STORE_UNAVAILABLE


def test_a_name_server_that_forgets_all_brokers_is_not_believed(world: World) -> None:
    world.clock.run_for(100)
    assert set(world.map.brokers) == {"broker-a", "broker-b"}
    world.cluster.listed.clear()
    world.clock.run_for(5_000)
    assert set(world.map.brokers) == {"broker-a", "broker-b"}
    assert "forgotten" in world.map.fault


def test_a_broker_that_is_listed_no_more_is_asked_until_it_does_not_answer(world: World) -> None:
    world.ensure()
    world.cluster.listed.discard("broker-b")
    world.clock.run_for(2_000)
    assert set(world.map.brokers) == {"broker-a"}
    assert world.servers.address("broker-b")
    world.cluster.brokers["broker-b"].up = False
    world.servers.ask("broker-b", Request(codes.GET_MAX_OFFSET, {"topic": "T"}), lambda _: None)
    world.clock.run_for(2_000)
    assert world.servers.address("broker-b") == ""


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "cannot be read"),
        (b"[]", "no JSON object"),
        (b"{}", "no list queueDatas"),
        (b'{"queueDatas":[7],"brokerDatas":[]}', "no JSON object"),
        (
            b'{"queueDatas":[{"brokerName":"b","readQueueNums":-1,"writeQueueNums":1,"perm":6}],"brokerDatas":[]}',
            "readQueueNums",
        ),
        (b'{"queueDatas":[{"brokerName":"b","readQueueNums":99999999,"perm":6}],"brokerDatas":[]}', "readQueueNums"),
        (b'{"queueDatas":[{"brokerName":"a b","readQueueNums":1,"perm":6}],"brokerDatas":[]}', "without a name"),
        (b'{"queueDatas":[],"brokerDatas":[{"brokerName":"b"}]}', "table of addresses"),
        (b'{"queueDatas":[],"brokerDatas":[{"brokerName":"b","brokerAddrs":{"x":"h:1"}}]}', "address that is none"),
        (b'{"queueDatas":[{"brokerName":"b"},{"brokerName":"b"}],"brokerDatas":[]}', "twice"),
    ],
)
def test_a_route_that_is_nonsense_is_refused_and_the_old_one_kept(world: World, body: bytes, text: str) -> None:
    world.ensure()
    world.cluster.nameserver.on(codes.GET_ROUTE, lambda frame: (0, {"a": "b"}, body))
    failure = world.ensure("other")
    assert failure is not None
    assert text in failure.text
    world.clock.run_for(3_000)
    assert world.map.brokers_of("T") == ["broker-a", "broker-b"]


def test_more_queues_than_a_topic_may_have_are_refused(world: World) -> None:
    rows = [{"brokerName": f"b{at}", "readQueueNums": 60_000, "writeQueueNums": 1, "perm": 6} for at in range(2)]
    body = orjson.dumps({"queueDatas": rows, "brokerDatas": []})
    world.cluster.nameserver.on(codes.GET_ROUTE, lambda frame: (0, {"a": "b"}, body))
    failure = world.ensure()
    assert failure is not None
    assert "queues" in failure.text


def test_a_static_topic_is_refused_by_name(world: World) -> None:
    body = b'{"queueDatas":[],"brokerDatas":[],"topicQueueMappingByBroker":{"broker-a":{"bname":"broker-a"}}}'
    world.cluster.nameserver.on(codes.GET_ROUTE, lambda frame: (0, {"a": "b"}, body))
    failure = world.ensure()
    assert failure is not None
    assert failure.code is ErrorCode.NOT_SUPPORTED
    assert "static topic" in failure.text


def test_addresses_with_bare_numbers_as_keys_are_read(world: World) -> None:
    body = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.5:10911"},"brokerName":"broker-a","cluster":"c"}],'
        b'"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":1,"writeQueueNums":1}]}'
    )
    world.cluster.nameserver.on(codes.GET_ROUTE, lambda frame: (0, {"a": "b"}, body))
    assert world.ensure() is None
    assert world.servers.address("broker-a") == "10.0.0.1:10911"


def test_places_are_not_used_before_they_are_stored(world: World) -> None:
    world.driver.store.drain(lambda: None)
    assert world.ensure() is not None
    assert world.map.queues("T") == ()


def test_many_topics_in_use_take_turns(world: World) -> None:
    topics = 3 * maps.LOOKS_MAX + 1
    for number in range(topics):
        world.cluster.topics[f"t{number}"] = {"broker-a": (1, 1, 6)}
        world.ensure(f"t{number}")
    asked: list[str] = []

    def route(frame: Frame) -> Reply:
        asked.append((frame.fields() or {})["topic"])
        return 1, {"a": "b"}, b""

    world.cluster.nameserver.on(codes.GET_ROUTE, route)
    world.clock.run_for(1_000)
    assert len(asked) == maps.LOOKS_MAX
    world.clock.run_for(3_000)
    assert set(asked) == {f"t{number}" for number in range(topics)}


def test_a_topic_that_nobody_uses_is_looked_at_no_more(world: World) -> None:
    world.ensure()
    world.clock.run_for(maps.USED_NS / 1_000_000 + 3_000)
    before = world.cluster.nameserver.codes().count(codes.GET_ROUTE)
    world.clock.run_for(10_000)
    assert world.cluster.nameserver.codes().count(codes.GET_ROUTE) == before
    assert world.ensure() is None
