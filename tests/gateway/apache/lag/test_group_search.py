"""Which groups there are, as brokers name them topic by topic: how often they are asked, and what is believed."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from domain.limits import SECOND_NS
from gateway.apache.lag.group_topics import GroupTopics, Pair
from gateway.apache.lag.search import PAUSE_NS, PERIOD_NS, GroupSearch, groups_in, is_read
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.gateway.apache.scripted_cluster import Reply
from tests.gateway.brokers.test_cluster_map import World as MapWorld


class World(MapWorld):
    """Two brokers, what groups they name, and a search.

    readers   broker -> topic -> groups
    asked_ns  when each question of a broker came
    """

    def __init__(self) -> None:
        super().__init__()
        self.readers: dict[str, dict[str, list[str]]] = {name: {} for name in self.cluster.brokers}
        self.asked_ns: list[int] = []
        self.listed: list[str] | None = None
        self.cluster.nameserver.on(codes.GET_TOPICS, self._topics)
        for name, server in self.cluster.brokers.items():
            server.on(codes.GET_CONSUMERS, lambda frame, name=name: self._named(name, frame))  # type: ignore[misc]
        self.pairs = GroupTopics()
        self.search = GroupSearch(self.servers, self.map, self.clock, self.pairs)
        self.clock.run_for(100)

    def _topics(self, frame: Frame) -> Reply:
        found = sorted(self.cluster.topics) if self.listed is None else self.listed
        return codes.SUCCESS, {"a": "b"}, orjson.dumps({"topicList": found})

    def _named(self, broker: str, frame: Frame) -> Reply:
        self.asked_ns.append(self.clock.monotonic_ns())
        topic = (frame.fields() or {})["topic"]
        return codes.SUCCESS, {"a": "b"}, orjson.dumps({"groupList": self.readers[broker].get(topic, [])})

    def found(self, seconds: float = 2) -> set[Pair]:
        """The pairs after so many seconds."""
        self.clock.run_for(seconds * 1_000)
        return set(self.pairs.next_walk())


@pytest.fixture
def world() -> World:
    return World()


def test_groups_of_all_brokers_are_found(world: World) -> None:
    world.cluster.topics["U"] = {"broker-b": (1, 1, 6)}
    world.readers["broker-a"] = {"T": ["g"], "U": ["not there"]}
    world.readers["broker-b"] = {"T": ["h"], "U": ["g"]}
    world.search.start()
    assert world.found() == {("g", "T"), ("h", "T"), ("g", "U")}
    assert world.pairs.holders("U") == ("broker-b",)


def test_a_group_that_comes_is_found_by_the_next_search_and_one_that_goes_is_forgotten(world: World) -> None:
    world.readers["broker-a"]["T"] = ["g"]
    world.search.start()
    assert world.found() == {("g", "T")}
    world.readers["broker-a"]["T"] = ["h"]
    assert world.found(PERIOD_NS / SECOND_NS) == {("h", "T")}
    world.cluster.topics["U"] = world.cluster.topics.pop("T")
    assert world.found(PERIOD_NS / SECOND_NS) == set()


def test_brokers_are_asked_a_little_at_a_time(world: World) -> None:
    for number in range(30):
        world.cluster.topics[f"T{number}"] = {"broker-a": (1, 1, 6)}
    del world.cluster.topics["T"]
    world.search.start()
    world.clock.run_for(20_000)
    assert len(world.asked_ns) == 30
    assert min(later - earlier for earlier, later in zip(world.asked_ns, world.asked_ns[1:], strict=False)) >= PAUSE_NS


def test_what_a_broker_that_is_away_has_named_is_kept(world: World) -> None:
    world.readers["broker-a"]["T"], world.readers["broker-b"]["T"] = ["g"], ["h"]
    world.search.start()
    assert world.found() == {("g", "T"), ("h", "T")}
    world.cluster.brokers["broker-b"].stop()
    world.readers["broker-a"]["T"] = ["i"]
    assert world.found(PERIOD_NS / SECOND_NS + 5) == {("g", "T"), ("h", "T"), ("i", "T")}


def test_a_name_server_that_tells_nothing_changes_nothing(world: World) -> None:
    world.readers["broker-a"]["T"] = ["g"]
    world.search.start()
    world.found()
    world.cluster.nameserver.on(codes.GET_TOPICS, lambda frame: (codes.SYSTEM_ERROR, {"a": "b"}, b"", "disable"))
    assert world.found(PERIOD_NS / SECOND_NS * 2) == {("g", "T")}
    world.cluster.nameserver.on(codes.GET_TOPICS, lambda frame: (codes.SUCCESS, {"a": "b"}, b"nonsense"))
    assert world.found(PERIOD_NS / SECOND_NS * 2) == {("g", "T")}


def test_topics_of_the_system_and_of_brokers_are_not_asked_for(world: World) -> None:
    world.listed = ["T", "broker-a", "DefaultCluster", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "%DLQ%g"]
    for name in world.listed:
        world.cluster.topics[name] = {"broker-a": (1, 1, 6)}
    world.readers["broker-a"] = {name: ["g"] for name in world.listed}
    world.search.start()
    assert world.found(5) == {("g", "T")}


def test_what_remoting_clients_send_back_has_a_row_and_retries_of_leases_count_for_their_topic(world: World) -> None:
    for name in ("%RETRY%g", "%RETRY%g_T"):
        world.cluster.topics[name] = {"broker-a": (1, 1, 6)}
    world.readers["broker-a"] = {"T": ["g"], "%RETRY%g": ["g"], "%RETRY%g_T": ["g"]}
    world.search.start()
    assert world.found() == {("g", "T"), ("g", "%RETRY%g")}
    assert world.pairs.holders("%RETRY%g_T") == ("broker-a",)


def test_after_the_end_nothing_is_asked(world: World) -> None:
    world.search.start()
    world.search.stop()
    world.found(60)
    assert world.asked_ns == []


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b"{}", b'{"groupList":1}', b'{"groupList":[1,"",null,"a b","TOOLS_CONSUMER"]}']
)
def test_answers_of_another_shape_name_nobody(body: bytes) -> None:
    assert groups_in(body) == set()


@pytest.mark.parametrize(("topic", "read"), [("T", True), ("%RETRY%g", True), ("%DLQ%g", False), ("TBW102", False)])
def test_what_is_read(topic: str, read: Any) -> None:
    assert is_read(topic) is read
