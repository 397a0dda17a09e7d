"""A replica that follows answers readers from what it has, and sends them to the leader for all else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from domain.admin.message import Viewed, ViewMessage
from domain.admin.topic import Bounds, EarliestStoreTime, QueryBounds, QueryEarliestStoreTime, SearchOffset
from domain.command import Command, Pull
from domain.errors import ErrorCode
from domain.event import Event, Offset, Refused
from domain.message.record import Record
from domain.replication.reads import ELSEWHERE, PulledBy
from gateway.usecase.follower.reading import AGAIN_NS, STAY_NS, FollowerReading
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.topics_and_groups.rights import Rights
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_questions import LongQuestions
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.store.replication.replica_log.pair import Leading, Pair, apply_all

OWN = 2
COUNT = 40


class Place:
    """A follower that has `COUNT` messages of topic `orders`, its verbs, and one client."""

    def __init__(self, near_bytes: int = 0) -> None:
        self.two = two = Pair(COUNT)
        self.catch_up()
        reads, policy = two.follower.reads, NodePolicy()
        topics = Topics(reads.metadata, two.clock, policy, LongQuestions(two.clock))
        self.reading = FollowerReading(
            reads.log, lambda: two.follower.applied, topics, Rights(reads.metadata, reads.state, policy), two.clock,
            lambda: OWN, near_bytes, reads.metadata.group,
        )  # fmt: skip
        self.recorder = EventRecorder()

    def catch_up(self) -> None:
        self.two.ship()
        apply_all(self.two.follower, self.two.clock, self.two.follower.written)

    def ask(self, command: Command) -> Event:
        self.reading.verbs[type(command)](self.recorder.connection, command)
        self.two.clock.run_for(20)
        (event,) = self.recorder.take()
        return event

    def pull(self, offset: int, limit: int = 8, group: str = "g", **more: object) -> PulledBy:
        event = self.ask(Pull(1, group, "orders", 0, offset, limit, 1 << 20, **more))  # type: ignore[arg-type]
        assert isinstance(event, PulledBy)
        return event


def test_a_reader_gets_what_is_confirmed_and_is_sent_to_the_leader_at_the_end() -> None:
    place = Place()
    found: list[bytes] = []
    while (pulled := place.pull(len(found))).status == "FOUND":
        found += [Record(each).body for each in pulled.records]
    assert found == place.two.bodies()
    assert (pulled.status, pulled.records, pulled.next_offset, pulled.reader) == (ELSEWHERE, [], COUNT, 0)
    assert (place.reading.served, place.reading.elsewhere) == (COUNT, 1)


def test_no_offset_is_out_of_range_here() -> None:
    place = Place()
    for offset in (COUNT, COUNT + 1, 1_000_000, -1):
        pulled = place.pull(offset)
        assert (pulled.status, pulled.next_offset, pulled.reader) == (ELSEWHERE, offset, 0)


def test_a_pull_that_would_wait_is_sent_to_the_leader_at_once() -> None:
    assert Place().pull(COUNT, wait_ms=15_000).status == ELSEWHERE


def test_a_reader_that_knows_no_leader_does_not_ask_again_and_again() -> None:
    """A name server tells slaves while there is no master: SDKs ask one of them, and again when it says "ask the leader"."""
    place = Place()
    assert place.pull(COUNT).status == ELSEWHERE
    refused = place.ask(Pull(1, "g", "orders", 0, COUNT, 8, 1 << 20))
    assert isinstance(refused, Refused)
    assert refused.failure.code is ErrorCode.STORE_UNAVAILABLE
    assert place.pull(COUNT, group="other").status == ELSEWHERE
    place.two.clock.run_for(AGAIN_NS / 1_000_000 + 1)
    assert place.pull(COUNT).status == ELSEWHERE
    place.two.send(1)
    place.catch_up()
    assert place.pull(COUNT).status == "FOUND"
    assert place.pull(COUNT + 1).status == ELSEWHERE, "another offset"


@pytest.mark.parametrize("changes", [{"topic": "other"}, {"queue_id": 7}, {"queue_id": -1}, {"epoch": 5}, {"subscribed": True}])
def test_what_is_not_known_here_is_asked_of_the_leader(changes: dict[str, object]) -> None:
    place = Place()
    command = Pull(1, "g", "orders", 0, 0, 8, 1 << 20)
    for name, value in changes.items():
        setattr(command, name, value)
    event = place.ask(command)
    assert isinstance(event, PulledBy)
    assert (event.status, event.next_offset) == (ELSEWHERE, 0)


def test_a_reader_near_the_end_is_sent_to_the_leader_with_its_messages() -> None:
    place = Place(near_bytes=1_000)
    assert place.pull(0).reader == OWN
    last = place.pull(COUNT - 8)
    assert (last.status, last.reader) == ("FOUND", 0)


def test_a_reader_is_sent_to_the_leader_from_time_to_time() -> None:
    place = Place()
    assert place.pull(0).reader == OWN
    assert place.pull(8).reader == OWN
    place.two.clock.run_for(STAY_NS / 1_000_000 + 1)
    pulled = place.pull(16)
    assert (pulled.status, pulled.reader) == ("FOUND", 0)
    assert place.pull(24).reader == OWN, "the leader has sent it back"


def test_each_group_has_its_own_time_and_a_closed_connection_leaves_nothing() -> None:
    place = Place()
    place.pull(0)
    place.two.clock.run_for(STAY_NS / 1_000_000 + 1)
    assert place.pull(0, group="other").reader == OWN
    place.recorder.connection.end()
    assert (place.reading._stays, place.reading._sent_on) == ({}, {})


def test_bounds_are_those_of_what_is_here() -> None:
    place = Place()
    place.two.send(5)
    event = place.ask(QueryBounds(1, "orders", 0))
    assert isinstance(event, Bounds)
    assert event.queues == [(0, 0, COUNT)]
    place.catch_up()
    event = place.ask(QueryBounds(1, "orders", 0))
    assert isinstance(event, Bounds)
    assert event.queues == [(0, 0, COUNT + 5)]


def test_an_offset_by_time_is_known_unless_it_is_the_end() -> None:
    place = Place()
    assert place.ask(SearchOffset(1, "orders", 0, 0)) == Offset(1, 0)
    late = place.two.clock.wall_ms() + 1_000_000
    for upper in (False, True):
        event = place.ask(SearchOffset(1, "orders", 0, late, upper))
        assert isinstance(event, Refused)
        assert event.failure.code is ErrorCode.STORE_UNAVAILABLE


def test_the_earliest_message_and_single_messages_are_known() -> None:
    place = Place()
    record = Record(place.pull(0).records[0])
    assert place.ask(QueryEarliestStoreTime(1, "orders", 0)) == EarliestStoreTime(1, record.store_ms)
    assert place.ask(ViewMessage(1, record.physical_offset)) == Viewed(1, record.data)
    event = place.ask(ViewMessage(1, place.two.follower.applied))
    assert isinstance(event, Refused)
    assert event.failure.code is ErrorCode.STORE_UNAVAILABLE


@pytest.mark.parametrize(
    "command",
    [
        lambda: Pull(1, "g", "orders", 0, 0, 8, 1 << 20), lambda: QueryBounds(1, "orders", 0), lambda: ViewMessage(1, 0),
        lambda: SearchOffset(1, "orders", 0, 0), lambda: QueryEarliestStoreTime(1, "orders", 0),
    ],
)  # fmt: skip
def test_a_replica_that_was_promoted_refuses_what_comes_late(command: Callable[[], Command]) -> None:
    place = Place()
    Leading(place.two.follower, place.two.disk, place.two.clock, 2)
    event = place.ask(command())
    assert isinstance(event, Refused)
    assert event.failure.code is ErrorCode.STORE_UNAVAILABLE
