"""FollowTopic: a whole topic by offset, from where it begins to what arrives while it waits."""

from __future__ import annotations

import pytest

from domain.admin.topic import DeleteTopic, PutTopic
from domain.command import FollowTopic, Send
from domain.errors import ErrorCode, Failure
from domain.event import Done, Event, TopicFollowed
from domain.filter.expression import Expressions
from domain.filter.filter import TAG, Filter
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import Topic
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder

pytestmark = pytest.mark.usefixtures("near_and_late")

FIRST = {0: 0, 1: 0}


@pytest.fixture
def place(bench: Bench) -> Bench:
    bench.ask(PutTopic(1, Topic("T", 2, 2)))
    return bench


def put(place: Bench, queue: int, *bodies: str, path: str = "") -> None:
    pairs = [("TAGS", bodies[0][0])] + ([(properties.ORIGIN_MQTT_TOPIC, path)] if path else [])
    place.ask(Send(1, [Message("T", body.encode(), properties.encode(pairs), queue_id=queue) for body in bodies]))


def follow(start: str = "first", wait_ms: int = 0, **more: object) -> FollowTopic:
    command = FollowTopic(1, "T", {}, start, -1, 0, 32, 1 << 18, wait_ms)
    for name, value in more.items():
        setattr(command, name, value)
    return command


def followed(events: list[Event]) -> TopicFollowed:
    (event,) = events
    assert isinstance(event, TopicFollowed), event
    return event


def texts(event: TopicFollowed) -> list[str]:
    return [Record(data).body.decode() for data in event.records]


def tag(text: str) -> Filter:
    found = Expressions().compile(TAG, text)
    assert not hasattr(found, "code")
    return found  # type: ignore[return-value]


def test_first_reads_all_queues_and_last_none(place: Bench) -> None:
    put(place, 0, "a1", "a2")
    put(place, 1, "b1")
    event = followed(place.ask(follow()))
    assert (event.status, texts(event), event.offsets) == ("FOUND", ["a1", "a2", "b1"], {0: 2, 1: 1})
    event = followed(place.ask(follow("last")))
    assert (event.status, event.records, event.offsets) == ("EMPTY", [], {0: 2, 1: 1})


def test_a_waiting_reader_is_given_what_arrives_without_a_gap(place: Bench) -> None:
    put(place, 0, "a1")
    reader = EventRecorder()
    assert place.ask(follow("", 5_000, offsets={0: 1, 1: 0}), reader) == []
    put(place, 1, "b1", "b2")
    event = followed(reader.take())
    assert (texts(event), event.offsets) == (["b1", "b2"], {0: 1, 1: 2})
    assert place.ask(follow("", 5_000, offsets=event.offsets), reader) == []
    put(place, 0, "a2")
    assert texts(followed(reader.take())) == ["a2"]
    assert place.handler.following.waiting() == 0


def test_the_wait_ends_empty_and_tells_the_offsets(place: Bench) -> None:
    event = followed(place.ask(follow("last", 1_000), ms=1_100))
    assert (event.status, event.offsets) == ("EMPTY", FIRST)


def test_many_readers_are_served_in_turns(place: Bench) -> None:
    readers = [EventRecorder() for _ in range(300)]
    for reader in readers:
        place.handler.handle(reader.connection, follow("last", 5_000))
    place.clock.run_for(20)
    assert place.handler.following.waiting() == 300
    put(place, 0, "a1")
    assert [texts(followed(reader.take())) for reader in readers] == [["a1"]] * 300


def test_filter_and_path_hold_both_for_what_is_stored_and_for_what_arrives(place: Bench) -> None:
    def wanted(start: str = "first", wait_ms: int = 0, **offsets: object) -> FollowTopic:
        return follow(start, wait_ms, pattern="T/+/x", filter=tag("k"), **offsets)

    put(place, 0, "no", path="T/1/x")
    put(place, 0, "k1", path="T/1/x")
    put(place, 1, "k2", path="T/1/y")
    event = followed(place.ask(wanted()))
    assert (texts(event), event.offsets) == (["k1"], {0: 2, 1: 1})
    reader = EventRecorder()
    assert place.ask(wanted("", 5_000, offsets=event.offsets), reader) == []
    put(place, 0, "no", path="T/2/x")
    put(place, 0, "k3", path="T/2/y")
    assert reader.take() == []
    put(place, 0, "k4", path="T/2/x")
    event = followed(reader.take())
    assert (texts(event), event.offsets) == (["k4"], {0: 5, 1: 1})


def test_bounds_of_one_answer_leave_the_rest_to_the_next(place: Bench) -> None:
    put(place, 0, *[f"a{at}" for at in range(5)])
    put(place, 1, *[f"b{at}" for at in range(5)])
    event = followed(place.ask(follow(limit=3)))
    assert (texts(event), event.next_queue) == (["a0", "a1", "a2"], 1)
    command = follow("", limit=3, offsets=event.offsets, first_queue=event.next_queue)
    assert texts(followed(place.ask(command))) == ["b0", "b1", "b2"]


def test_resume_refuses_what_the_queue_has_not(place: Bench) -> None:
    put(place, 0, "a1")
    assert followed(place.ask(follow("resume", offsets={0: 1, 1: 0}))).status == "EMPTY"
    assert followed(place.ask(follow("resume", offsets={0: 2, 1: 0}))).status == "TOO_LARGE"
    topic = place.handler.topics.find("T")
    assert topic is not None
    assert followed(place.ask(follow("resume", offsets=FIRST, epoch=topic.created_ms))).status == "FOUND"
    assert followed(place.ask(follow("resume", offsets=FIRST, epoch=topic.created_ms + 1))).status == "OTHER_EPOCH"


def test_a_queue_that_is_added_begins_at_its_first_message(place: Bench) -> None:
    reader = EventRecorder()
    assert place.ask(follow("last", 5_000), reader) == []
    assert place.ask(PutTopic(1, Topic("T", 3, 3))) == [Done(1)]
    put(place, 2, "c1")
    event = followed(reader.take())
    while not event.records:
        event = followed(place.ask(follow("", 5_000, offsets=event.offsets, first_queue=max(event.next_queue, 0))))
    assert (texts(event), event.offsets) == (["c1"], {0: 0, 1: 0, 2: 1})


def test_refusals(place: Bench) -> None:
    assert code(place.ask(follow(topic="%DLQ%none"))) is ErrorCode.TOPIC_NOT_FOUND
    assert code(place.ask(follow(queue_id=2))) is ErrorCode.QUEUE_ILLEGAL
    assert code(place.ask(follow(pattern="a/#/b"))) is ErrorCode.FILTER_ILLEGAL
    place.ask(PutTopic(1, Topic("wide", 257, 257)))
    assert code(place.ask(follow(topic="wide"))) is ErrorCode.ARGUMENT_ILLEGAL
    assert followed(place.ask(follow(topic="wide", queue_id=256))).offsets == {256: 0}


def test_too_many_waiting_readers_are_refused(place: Bench) -> None:
    place.handler.following._context.polls.parked_max = 1
    assert place.ask(follow("last", 5_000), EventRecorder()) == []
    assert code(place.ask(follow("last", 5_000))) is ErrorCode.POLLING_FULL
    assert followed(place.ask(follow("last"))).status == "EMPTY", "one that does not wait is answered"


def test_a_reader_whose_rights_are_taken_is_refused_while_it_waits(place: Bench) -> None:
    reader = EventRecorder()
    assert place.ask(follow("last", 5_000), reader) == []
    place.handler.following.review(lambda connection, command: Failure(ErrorCode.NOT_ALLOWED, "no more"))
    assert code(reader.take()) is ErrorCode.NOT_ALLOWED
    assert place.handler.following.waiting() == 0


def test_a_reader_that_has_gone_waits_no_more(place: Bench) -> None:
    reader = EventRecorder()
    assert place.ask(follow("last", 5_000), reader) == []
    reader.connection.end()
    assert place.handler.following.waiting() == 0
    put(place, 0, "a1")
    assert reader.take() == []


def test_a_topic_that_is_deleted_is_refused_to_who_follows_it(place: Bench) -> None:
    event = followed(place.ask(follow("last")))
    place.ask(DeleteTopic(1, "T"))
    assert code(place.ask(follow("", 1_000, offsets=event.offsets))) is ErrorCode.TOPIC_NOT_FOUND


@pytest.mark.parametrize("start", ["first", "last"])
def test_a_reader_may_come_before_the_first_message(bench: Bench, start: str) -> None:
    """The topic is made, as for a message or a subscription."""
    reader = EventRecorder()
    event = followed(bench.ask(follow(start)))
    assert (event.status, event.records) == ("EMPTY", [])
    assert bench.ask(follow("", 5_000, offsets=event.offsets), reader) == []
    put(bench, 0, "a1")
    assert texts(followed(reader.take())) == ["a1"]


def test_a_reader_makes_no_topic_that_clients_do_not_make(bench: Bench) -> None:
    for name in ("%RETRY%g", "%DLQ%g", "rmq_sys_x", "a b", "%LMQ%x"):
        assert code(bench.ask(follow(topic=name))) is ErrorCode.TOPIC_NOT_FOUND
    assert code(bench.ask(follow("resume", offsets={0: 0}))) is ErrorCode.TOPIC_NOT_FOUND, "it was deleted, or never there"
