"""The lag of groups as the brokers of a cluster tell it: what is asked, how often, and what it makes on the metrics page."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from domain.limits import SECOND_NS
from gateway.apache.lag import group_topics as lag_pairs
from gateway.apache.lag.group_topics import NAMED_AT_ONCE, GroupTopics
from gateway.apache.lag.walk import PAUSE_NS, ClusterLagWalk, RocketmqReceivable, oldest_in, waiting_in
from gateway.observe.lag import PERIOD_NS, Lags
from protocols.remoting import codes
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame
from tests.gateway.apache.scripted_cluster import Reply
from tests.gateway.apache.topics.test_await_metadata import World as FrontWorld

RETRY = "%RETRY%g_T"


class Counting:
    """What one broker says of groups.

    waiting   topic -> (end of the queue, position) of its queues
    delays    topic -> milliseconds since the oldest message that waits was stored
    at_ns     when each question came
    """

    def __init__(self, world: World, name: str) -> None:
        self.waiting: dict[str, list[tuple[int, int]]] = {}
        self.delays: dict[str, int] = {}
        self.at_ns: list[int] = []
        self.asked: list[dict[str, str]] = []
        self._world = world
        self._name = name
        server = world.cluster.brokers[name]
        server.on(codes.GET_PROGRESS, self._progress)
        server.on(codes.GET_TIME_SPANS, self._spans)

    def _note(self, frame: Frame) -> dict[str, str]:
        fields = frame.fields() or {}
        self.at_ns.append(self._world.clock.monotonic_ns())
        self.asked.append(fields)
        return fields

    def _progress(self, frame: Frame) -> Reply:
        topics = self._note(frame)["topicList"].split(";")
        rows = [
            (fastjson.queue(self._name, topic, at), {"brokerOffset": end, "consumerOffset": position, "pullOffset": position})
            for topic in topics
            for at, (end, position) in enumerate(self.waiting.get(topic, ()))
        ]
        return codes.SUCCESS, {"a": "b"}, b'{"consumeTps":0.0,"offsetTable":' + fastjson.keyed(rows) + b"}"

    def _spans(self, frame: Frame) -> Reply:
        delay_ms = self.delays[self._note(frame)["topic"]]
        rows = [{"delayTime": 0, "minTimeStamp": 1}, {"delayTime": delay_ms, "minTimeStamp": 1}]
        return codes.SUCCESS, {"a": "b"}, orjson.dumps({"consumeTimeSpanSet": rows})


class World(FrontWorld):
    """Group g of topic T over two brokers, and the lags of a gateway."""

    def __init__(self) -> None:
        super().__init__()
        self.at = {name: Counting(self, name) for name in self.cluster.brokers}
        self.a, self.b = self.at["broker-a"], self.at["broker-b"]
        self.cluster.topics[RETRY] = {"broker-b": (1, 1, 6)}
        self.pairs = GroupTopics()
        outlook = RocketmqReceivable(self.servers, self.map, self.clock, self.pairs)
        self.lags = Lags(outlook, self.clock)
        self.receive("g", "T")
        for topic in ("T", RETRY):
            assert self.driver.call(self.map.ensure, topic) is None

    def receive(self, group: str, topic: str) -> None:
        """A group that is there receives."""
        self.pairs.add(group, topic)
        for groups in self.groups.values():
            groups[group] = {"groupName": group}

    def rows(self, seconds: float = 1) -> list[tuple[str, str, int, int]]:
        """The rows after walking for so long, ages in whole seconds."""
        self.lags.stop()
        self.lags.start()
        self.clock.run_for(seconds * 1_000)
        return [(row.group, row.topic, row.messages, round(row.seconds)) for row in self.lags.rows]


@pytest.fixture
def world() -> World:
    return World()


def test_what_waits_at_all_brokers_counts_and_the_oldest_of_them_tells_the_age(world: World) -> None:
    world.a.waiting["T"], world.b.waiting["T"] = [(10, 4), (5, 5)], [(7, 0), (3, 3)]
    world.a.delays["T"], world.b.delays["T"] = 20_000, 60_000
    assert world.rows() == [("g", "T", 13, 60)]
    assert 0 <= world.lags.age_s() < 1


def test_what_is_delivered_again_counts_for_its_topic(world: World) -> None:
    world.b.waiting = {"T": [(2, 2)], RETRY: [(9, 5)]}
    world.b.delays[RETRY] = 5_000
    assert world.rows() == [("g", "T", 4, 5)]
    assert world.b.asked[-2]["topicList"] == f"T;{RETRY}"
    assert world.a.asked[-1]["topicList"] == "T"


def test_a_group_without_lag_has_a_row_and_is_not_asked_for_its_age(world: World) -> None:
    world.a.waiting["T"] = [(4, 4)]
    assert world.rows() == [("g", "T", 0, 0)]
    assert all("topicList" in each for each in world.a.asked)


def test_each_broker_is_asked_a_little_at_a_time(world: World) -> None:
    for number in range(30):
        world.receive(f"g{number:02}", "T")
        world.a.waiting["T"] = world.b.waiting["T"] = [(1, 0)]
        world.a.delays["T"] = world.b.delays["T"] = 1_000
    world.rows(20)
    assert len(world.lags.rows) == 31
    for side in (world.a, world.b):
        gaps = [later - earlier for earlier, later in zip(side.at_ns, side.at_ns[1:], strict=False)]
        assert min(gaps) >= PAUSE_NS


def test_a_walk_begins_again_after_its_period(world: World) -> None:
    world.rows()
    before = len(world.a.asked)
    world.clock.run_for(PERIOD_NS // SECOND_NS * 1_000)
    assert len(world.a.asked) == before + 1


def test_a_broker_that_is_away_does_not_hold_the_walk(world: World) -> None:
    world.a.waiting["T"], world.a.delays["T"] = [(3, 0)], 1_000
    world.cluster.brokers["broker-b"].stop()
    assert [row[:3] for row in world.rows()] == [("g", "T", 3)]


def test_a_broker_that_says_nothing_does_not_hold_the_walk_for_ever(world: World) -> None:
    world.a.waiting["T"], world.a.delays["T"] = [(3, 0)], 1_000
    world.cluster.brokers["broker-b"].silent = True
    assert [row[:3] for row in world.rows(9)] == [("g", "T", 3)]


def test_a_group_that_is_deleted_has_no_lag(world: World) -> None:
    """Brokers say of it that all is still to be received."""
    world.a.waiting["T"], world.a.delays["T"] = [(3, 0)], 1_000
    assert world.rows() == [("g", "T", 3, 1)]
    for groups in world.groups.values():
        del groups["g"]
    assert world.rows() == [("g", "T", 0, 0)]
    assert codes.UPDATE_GROUP not in world.cluster.brokers["broker-a"].codes()


def test_a_broker_that_tells_no_groups_is_believed(world: World) -> None:
    """Those before 5.0."""
    world.a.waiting["T"], world.a.delays["T"] = [(3, 0)], 1_000
    world.cluster.brokers["broker-a"].on(codes.GET_GROUP, lambda frame: (codes.NOT_SUPPORTED, {"a": "b"}, b""))
    assert world.rows() == [("g", "T", 3, 1)]


def test_a_topic_that_is_gone_is_not_asked_for(world: World) -> None:
    world.pairs.add("g", "gone")
    world.rows()
    assert {each["topic"] for each in world.a.asked} == {"T"}


def test_asking_does_not_keep_routes_of_topics_fresh(world: World) -> None:
    """Routes of topics in use are asked for each second: what only the walk looks at is not in use."""
    used = world.map._topics["T"].used_ns
    world.rows()
    assert world.map._topics["T"].used_ns == used


def test_the_pairs_with_most_have_rows_and_the_others_are_one(world: World) -> None:
    world.receive("h", "T")
    walk = ClusterLagWalk(world.servers, world.map, world.clock, world.pairs, 1)
    world.a.waiting["T"], world.a.delays["T"] = [(3, 0)], 1_000
    while not walk.step(1):
        world.clock.run_for(20)
    rows, others = walk.result()
    assert [row[:3] for row in rows] == [("g", "T", 3)]
    assert others is not None
    assert others.messages == 3
    assert others.oldest_ms > 0
    assert (walk.passed, walk.total) == (4, 4)


def test_the_pairs_that_began_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_pairs, "PAIRS_MAX", 2)
    pairs = GroupTopics()
    for group in ("a", "b", "a", "c"):
        pairs.add(group, "T")
    assert pairs.next_walk() == [("a", "T"), ("c", "T")]


def test_pairs_that_brokers_name_are_asked_for_in_turn_and_keep_their_lag(world: World) -> None:
    groups = [f"g{number:04}" for number in range(2 * NAMED_AT_ONCE + 1)]
    world.pairs.name("T", ["broker-a"], groups)
    for group in groups:
        world.groups["broker-a"][group] = {"groupName": group}
    world.a.waiting["T"], world.a.delays["T"] = [(3, 1)], 1_000
    world.rows(90)
    told = {row.group: row.messages for row in world.lags.rows}
    assert told == dict.fromkeys(["g", *groups], 2)
    first, second = (
        [each["consumerGroup"] for each in side.asked if "topicList" in each].count(name)
        for side, name in ((world.a, "g"), (world.a, groups[0]))
    )
    assert first > second, "those that receive here are asked for in every walk"
    assert world.lags.age_s() > PERIOD_NS // SECOND_NS, "the age is that of the oldest row"


def test_a_pair_that_brokers_name_no_more_has_no_row(world: World) -> None:
    world.pairs.name("T", ["broker-a"], ["h"])
    world.groups["broker-a"]["h"] = {"groupName": "h"}
    assert [row[0] for row in world.rows()] == ["g", "h"]
    world.pairs.name("T", ["broker-a"], [])
    assert [row[0] for row in world.rows()] == ["g"]


def test_the_brokers_that_have_a_topic_which_nobody_uses_here_are_known_from_the_search(world: World) -> None:
    world.pairs.name("unused", ["broker-b"], ["h"])
    world.groups["broker-b"]["h"] = {"groupName": "h"}
    world.b.waiting["unused"], world.b.delays["unused"] = [(5, 1)], 1_000
    assert world.rows()[0] == ("h", "unused", 4, 1)
    assert "unused" not in {each.get("topic") for each in world.a.asked}


def test_pairs_beyond_the_bound_are_left_out_and_those_that_receive_here_are_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lag_pairs, "PAIRS_MAX", 3)
    pairs = GroupTopics()
    pairs.add("here", "T")
    pairs.name("T", ["broker-a"], ["a", "b", "c"])
    assert len(pairs.next_walk()) == 3
    assert "more than 3" in caplog.text
    pairs.keep({"other"})
    assert pairs.next_walk() == [("here", "T")]


@pytest.mark.parametrize(("model", "messages"), [("BROADCASTING", 0), ("CLUSTERING", 7), (None, 7)])
def test_a_group_that_broadcasts_has_no_lag(world: World, model: str | None, messages: int) -> None:
    """Its members keep their positions: the broker knows none, and says that all is still to be received."""
    world.a.waiting["T"], world.a.delays["T"] = [(4, 0), (3, 0)], 1_000
    reply: Reply = codes.CONSUMER_NOT_ONLINE, {"a": "b"}, b""
    if model is not None:
        reply = codes.SUCCESS, {"a": "b"}, orjson.dumps({"messageModel": model, "connectionSet": []})
    world.cluster.brokers["broker-a"].on(codes.GET_CONSUMER_CONNECTIONS, lambda frame: reply)
    assert [row[2] for row in world.rows()] == [messages]


def test_a_group_that_has_received_is_not_asked_how(world: World) -> None:
    world.a.waiting["T"], world.a.delays["T"] = [(4, 0), (3, 1)], 1_000
    assert [row[2] for row in world.rows()] == [6]
    assert codes.GET_CONSUMER_CONNECTIONS not in world.cluster.brokers["broker-a"].codes()


@pytest.mark.parametrize(
    "answer",
    [
        None, [], {}, {"offsetTable": []}, {"offsetTable": {"{}": {}}}, {"offsetTable": {"[]": 1}},
        {"offsetTable": {'{"topic":1}': {"brokerOffset": 9}}},
        {"offsetTable": {"nonsense": {"brokerOffset": 9}}}, {"offsetTable": {"": {"brokerOffset": 9}}},
        {"offsetTable": {"[1": {"brokerOffset": 9}}},
    ],
)  # fmt: skip
def test_answers_of_another_shape_tell_nothing(answer: Any) -> None:
    assert sum(waiting_in(answer).values()) == 0


@pytest.mark.parametrize(
    ("rows", "oldest_ms"),
    [
        (None, 0),
        ([], 0),
        ([1, {}], 0),
        ([{"delayTime": 400}, {"delayTime": 100}], 1_700_000_000_000 - 400),
        # The position is below all messages: the broker finds no message there, and counts from 1970.
        ([{"delayTime": 1_700_000_000_001, "minTimeStamp": 1_699_999_999_000}], 1_699_999_999_000),
        ([{"delayTime": 1_700_000_000_001, "minTimeStamp": -1}], 0),
        ([{"delayTime": "x"}], 0),
    ],
)
def test_the_age_is_that_of_the_first_message_behind_the_position(rows: Any, oldest_ms: int) -> None:
    assert oldest_in({"consumeTimeSpanSet": rows}, 1_700_000_000_000) == oldest_ms
