"""New messages of watched topics: nothing is missed between the begin of a tail and what comes after, whatever breaks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from domain.errors import ErrorCode, Failure
from domain.message.record import Record
from gateway.brokers.live_tail import QUEUES_MAX
from protocols.remoting import codes
from tests.gateway.brokers.test_message_log import World as LogWorld
from tests.gateway.brokers.test_message_log import stored
from tests.store.driver import sure


class World(LogWorld):
    """A tail over two scripted brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[tuple[str, int, bytes]] = []
        self.tail = self.log.tail
        self.log.listen(self)

    def arrived(self, topic: str, place: int, records: Sequence[bytes]) -> None:
        self.got += [(topic, place, Record(data).body) for data in records]

    def freed(self, group: str, topic: str) -> None:
        raise AssertionError(f"no lease is here: {group}, {topic}")

    def ready(self, pattern: str = "T/#") -> Failure | None:
        answers: list[Failure | None] = []
        self.tail.ready(pattern, answers.append)
        self.clock.run_until(lambda: bool(answers))
        return answers[0]

    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.got]

    def put(self, broker: str, queue_id: int, body: bytes) -> None:
        """A message arrives at a broker; the pulls that it holds are answered."""
        mine = self.queues[broker].records.setdefault(queue_id, [])
        mine.append(stored(body, len(mine), queue_id))
        server = self.cluster.brokers[broker]
        for frame in [each for each in server.requests if each.code == codes.PULL]:
            fields = frame.fields() or {}
            if int(fields["queueId"]) == queue_id and int(fields["queueOffset"]) == len(mine) - 1 and server.connections:
                server.take(server.connections[0], frame)
                server.requests.pop()
        self.clock.run_for(20)


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_new_arrives_and_what_was_there_does_not(world: World) -> None:
    world.put("broker-a", 0, b"old")
    assert world.ready() is None
    world.put("broker-a", 0, b"new")
    world.put("broker-b", 1, b"newer")
    assert world.got == [("T", 0, b"new"), ("T", 3, b"newer")]


def test_a_tail_ends_some_time_after_the_last_interest(world: World) -> None:
    world.ready()
    world.tail.watch("T/#", True)
    world.clock.run_for(60_000)
    assert world.tail.figures()["rocketmq_tailed_topics"] == 1
    world.tail.watch("T/#", False)
    world.clock.run_for(25_000)
    assert world.tail.figures()["rocketmq_tailed_topics"] == 0


def test_a_read_waits_until_the_begin_of_the_tail_is_known(world: World) -> None:
    order: list[str] = []
    world.tail.ready("T", lambda _: order.append("begun"))
    world.log.bounds("T", 0, lambda _: order.append("bounds"))
    world.clock.run_for(100)
    assert order == ["begun", "bounds"]


def test_a_broker_that_breaks_is_gone_on_with_at_the_same_place(world: World) -> None:
    world.ready()
    world.tail.watch("T/#", True)
    server = world.cluster.brokers["broker-a"]
    server.stop()
    world.queues["broker-a"].records[0] = [stored(b"while away", 0)]
    world.clock.run_for(5_000)
    assert world.got == []
    server.up = True
    world.clock.run_for(5_000)
    assert world.bodies() == [b"while away"]


def test_a_broker_that_was_away_at_the_begin_comes_in_later(world: World) -> None:
    world.cluster.brokers["broker-a"].stop()
    assert world.ready() is None
    world.tail.watch("T/#", True)
    world.cluster.brokers["broker-a"].up = True
    world.clock.run_for(5_000)
    world.put("broker-a", 0, b"after")
    assert world.bodies() == [b"after"]


@pytest.mark.parametrize("how", ["away", "silent"])
def test_what_others_sent_before_a_broker_told_where_its_tail_begins_is_not_passed_over(world: World, how: str) -> None:
    server = world.cluster.brokers["broker-a"]
    now_ms = world.clock.wall_ms()
    world.queues["broker-a"].records[0] = [stored(b"before", 0, at_ms=now_ms - 3_600_000)]
    server.silent = how == "silent"
    if how == "away":
        server.stop()
    assert world.ready() is None
    world.tail.watch("T/#", True)
    assert world.tail.notified("T", 0) == -1
    world.clock.run_for(60_000)
    # The clock of the broker is behind.
    world.queues["broker-a"].records[0].append(stored(b"meanwhile", 1, at_ms=now_ms - 5_000))
    server.silent, server.up = False, True
    world.clock.run_for(5_000)
    assert world.bodies() == [b"meanwhile"]
    assert world.tail.notified("T", 0) == 2


def test_a_tail_is_as_late_as_the_broker_that_does_not_answer(world: World) -> None:
    world.ready()
    world.tail.watch("T/#", True)
    usual_ms = world.tail.late_ms()
    server = world.cluster.brokers["broker-a"]
    server.stop()
    world.clock.run_for(15_000)
    assert world.tail.late_ms() > usual_ms + 14_000
    server.up = True
    world.clock.run_for(5_000)
    world.put("broker-a", 0, b"x")
    world.put("broker-a", 1, b"y")
    assert world.tail.late_ms() == usual_ms


def test_new_queues_are_read_from_their_first_message(world: World) -> None:
    world.ready()
    world.tail.watch("T/#", True)
    world.queues["broker-a"].records[2] = [stored(b"first of a new queue", 0, 2)]
    world.cluster.topics["T"]["broker-a"] = (3, 3, 6)
    world.clock.run_for(2_000)
    assert world.got == [("T", 4, b"first of a new queue")]


def test_a_topic_that_comes_after_its_watch_is_read_from_its_first_message(world: World) -> None:
    world.tail.watch("late", True)
    world.clock.run_for(100)
    world.cluster.topics["late"] = {"broker-b": (1, 1, 6)}
    world.queues["broker-b"].records[0] = [stored(b"first", 0)]
    world.clock.run_for(2_000)
    assert world.ensure("late") is None
    world.clock.run_for(100)
    assert world.got == [("late", 0, b"first")]


@pytest.mark.parametrize("pattern", ["late/#", "#"])
def test_a_topic_that_another_client_asks_for_first_is_read_from_its_first_message(world: World, pattern: str) -> None:
    world.tail.watch(pattern, True)
    world.clock.run_for(2_000)
    world.cluster.topics["late"] = {"broker-b": (1, 1, 6)}
    world.queues["broker-b"].records[0] = [stored(b"first", 0)]
    world.map.ensure("late", lambda _: world.tail.ready("late/x", lambda _: None))
    world.clock.run_for(100)
    assert world.got == [("late", 0, b"first")]


def test_a_filter_that_begins_with_a_wildcard_follows_every_topic(world: World) -> None:
    world.cluster.topics["U"] = {"broker-b": (1, 1, 6)}
    assert world.ensure("U") is None
    assert world.ready("#") is None
    world.tail.watch("#", True)
    world.clock.run_for(30_000)
    assert world.tail.figures()["rocketmq_tailed_queues"] == 5


def test_more_queues_than_are_followed_are_refused(world: World) -> None:
    world.cluster.topics["many"] = {"broker-a": (QUEUES_MAX - 3, QUEUES_MAX - 3, 6)}
    assert world.ensure("many") is None
    failure = world.ready("#")
    assert failure is not None
    assert failure.code is ErrorCode.QUOTA


def test_nonsense_of_a_broker_is_passed_over_after_a_pause(world: World) -> None:
    world.ready()
    world.tail.watch("T/#", True)
    world.queues["broker-a"].records[0] = [stored(b"whole", 0)[:40]]
    world.clock.run_for(16_000)
    assert world.got == []
    world.queues["broker-a"].records[0] = [stored(b"whole", 0)]
    world.clock.run_for(30_000)
    assert world.bodies() == [b"whole"]


def test_a_topic_that_is_deleted_is_followed_no_more(world: World) -> None:
    world.ready()
    world.tail.watch("T/#", True)
    del world.cluster.topics["T"]
    world.clock.run_for(2_000)
    assert world.tail.figures()["rocketmq_tailed_topics"] == 0


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("another", [False, True])
def test_a_topic_that_has_no_route_for_a_while_is_gone_on_with_at_the_same_place(
    world: World, anew: bool, another: bool
) -> None:
    """As when the only name server starts again, or the only broker; or when the topic is deleted and made again.

    another   somebody else subscribes to it, before the tail knows of the route
    """
    queues = world.queues["broker-a"]
    hour_ago_ms = world.clock.wall_ms() - 3_600_000
    queues.records[0] = [stored(b"old", number, at_ms=hour_ago_ms) for number in range(5)]
    world.ready()
    world.tail.watch("T/#", True)
    route = world.cluster.topics.pop("T")
    world.clock.run_for(20_000)
    assert world.tail.notified("T", 0) == -1
    if anew:
        queues.records[0] = []
    now_ms = world.clock.wall_ms()
    queues.records[0] += [stored(b"new", len(queues.records[0]) + number, at_ms=now_ms) for number in range(6)]
    world.cluster.topics["T"] = route
    if another:
        world.map.learn("T")
        world.map.ensure("T", lambda _: world.tail.ready("T/#", lambda _: None))
    world.clock.run_for(4_000)
    assert world.ensure() is None
    world.clock.run_for(2_000)
    assert world.bodies() == [b"new"] * 6


def test_a_sent_message_comes_back_by_the_tail(world: World) -> None:
    world.ready()
    world.tail.watch("T/#", True)
    sure(world.append(world.message(b"sent", 1)))
    world.clock.run_for(30_000)
    assert world.got == [("T", 1, b"sent")]
