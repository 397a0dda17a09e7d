"""Redrive: dead letters of a group come again, to the kind of consumer that gave up, in this group alone."""

from __future__ import annotations

import pytest

from domain.admin.group import PutGroup, RedriveGroup
from domain.admin.subscription import Redriven
from domain.admin.topic import PutTopic
from domain.client.membership import Heartbeat, Membership, Subscription
from domain.command import Acknowledge, AwaitMessages, Pull, Receive, Send, SendBack
from domain.errors import ErrorCode
from domain.event import Done, Event, MessagesWaiting, Pulled, Received
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import Group, Topic
from gateway.usecase.consume.redrive import PART, Redriving
from gateway.usecase.tools.inspect import Inspecting
from tests.gateway.usecase.bench import Bench, bodies, code
from tests.gateway.usecase.event_recorder import EventRecorder, only


@pytest.fixture
def place(bench: Bench) -> Bench:
    store, handler = bench.store, bench.handler
    handler.add(
        Redriving(store.log, store.positions, store.metadata, handler.topics, handler.sending),
        Inspecting(store.log, store.outlook, store.metadata, handler.topics, handler.rights, bench.clock, dict),
    )
    return bench


def kill(place: Bench, group: str, topic: str, ordered: bool = False) -> None:
    """Let a group that may try once give up what it has."""
    for _ in range(2):
        place.ask(Receive(1, group, topic, 32, 100, from_first=True, ordered=ordered))
        place.clock.run_for(600)


def redrive(place: Bench, group: str = "g", limit: int = 1_000) -> list[Event]:
    return place.ask(RedriveGroup(1, group, limit), ms=200)


def test_leased_messages_come_again_to_their_group_alone(place: Bench) -> None:
    place.ask(PutGroup(1, Group("g", retry_max=0)))
    place.send("t", "poison")
    assert bodies(place.receive("other", "t", invisible_ms=60_000)) == ["poison"]
    kill(place, "g", "t")
    assert bodies(place.receive("undertaker", "%DLQ%g")) == ["poison"]
    assert redrive(place) == [Redriven(1, 1)]
    assert place.receive("other", "t").messages == [], "its lease holds, and nothing was sent to the topic"
    [leased] = place.receive("g", "t").messages
    record = Record(leased.record)
    assert (record.body, leased.attempt, record.reconsume_times) == (b"poison", 1, 0)
    assert "DLQ_ORIGIN_TOPIC" not in record.properties.decode()
    place.ask(Acknowledge(1, "g", "t", [leased.receipt]))
    assert redrive(place) == [Redriven(1, 0)], "what was given is not given again"


def test_what_was_sent_back_comes_again_by_the_retry_topic_that_pulls_read(place: Bench) -> None:
    placed = place.send("t", "a").placed[0]
    place.ask(Heartbeat(1, "c", consumers=[Membership("g", subscriptions=[Subscription("t")])]))
    assert place.ask(SendBack(1, "g", placed.physical_offset, -1)) == [Done(1)]
    assert redrive(place) == [Redriven(1, 1)]
    event = only(Pulled, place.ask(Pull(1, "g", "%RETRY%g", 0, 0, 32, 0)))
    [record] = [Record(each) for each in event.records]
    assert (record.body, record.reconsume_times, properties.text(record.properties, "RETRY_TOPIC")) == (b"a", 0, "t")


def test_a_redriven_message_can_become_a_dead_letter_again(place: Bench) -> None:
    place.ask(PutGroup(1, Group("g", retry_max=0)))
    place.send("t", "poison")
    for _ in range(3):
        kill(place, "g", "t")
        assert redrive(place) == [Redriven(1, 1)]
    assert bodies(place.receive("g", "t")) == ["poison"]


def test_an_ordered_group_receives_them_in_the_order_of_each_key(place: Bench) -> None:
    place.ask(PutGroup(1, Group("g", orderly=True, retry_max=0)))
    for body in ("a1", "a2"):
        place.send("t", body, group="a")
    kill(place, "g", "t")
    kill(place, "g", "t")
    assert redrive(place) == [Redriven(1, 2)]
    found: list[bytes] = []
    waiting = AwaitMessages(1, "g", "t", ordered=True)
    for _ in range(2):
        assert place.ask(waiting) == [MessagesWaiting(1, True)]
        event = only(Received, place.ask(Receive(1, "g", "t", 1, 10_000, from_first=True, ordered=True)))
        [leased] = event.messages
        found.append(Record(leased.record).body)
        other = only(Received, place.ask(Receive(1, "g", "t", 1, 10_000, from_first=True, ordered=True)))
        assert other.messages == [], "the next one of the key waits"
        place.ask(Acknowledge(1, "g", "t", [leased.receipt]))
    assert found == [b"a1", b"a2"]


def test_a_call_is_bounded_and_the_next_one_goes_on(place: Bench) -> None:
    place.ask(PutGroup(1, Group("g", retry_max=0)))
    place.ask(PutTopic(1, Topic("t", 1, 1)))
    count = PART + 40
    for at in range(0, count, 8):
        place.send("t", *(f"m{at + one}" for one in range(8)))
    for _ in range(count // 32 + 4):
        kill(place, "g", "t")
    assert redrive(place, limit=10) == [Redriven(1, 10)]
    assert redrive(place, limit=PART + 5) == [Redriven(1, PART + 5)]
    assert redrive(place) == [Redriven(1, count - PART - 15)]
    assert redrive(place) == [Redriven(1, 0)]


def test_two_calls_at_once_give_nothing_twice(place: Bench) -> None:
    place.ask(PutGroup(1, Group("g", retry_max=0)))
    place.send("t", "a", "b")
    kill(place, "g", "t")
    recorder = EventRecorder()
    place.handler.handle(recorder.connection, RedriveGroup(1, "g"))
    second = place.ask(RedriveGroup(2, "g"), recorder, ms=200)
    assert Redriven(1, 2) in second
    assert code([event for event in second if event != Redriven(1, 2)]) is ErrorCode.CHANGED
    assert bodies(place.receive("g", "t")) == ["a", "b"]


def test_groups_that_are_not_there_or_have_no_dead_letters(place: Bench) -> None:
    assert code(redrive(place, "nobody")) is ErrorCode.GROUP_NOT_FOUND
    place.ask(PutGroup(1, Group("g")))
    assert redrive(place) == [Redriven(1, 0)]


def test_lite_topics_are_refused_in_words(place: Bench) -> None:
    place.ask(PutGroup(1, Group("g")))
    place.ask(PutTopic(1, Topic("parent", 1, 1, type="LITE")))
    letter = properties.encode([("DLQ_ORIGIN_TOPIC", "parent")])
    place.ask(Send(1, [Message("%DLQ%g", b"x", letter, queue_id=0)]))
    assert code(redrive(place)) is ErrorCode.NOT_SUPPORTED


def test_a_letter_without_an_origin_goes_to_the_retry_topic_of_the_group(place: Bench) -> None:
    place.ask(PutGroup(1, Group("g")))
    place.ask(Send(1, [Message("%DLQ%g", b"x", queue_id=0)]))
    assert redrive(place) == [Redriven(1, 1)]
    event = only(Pulled, place.ask(Pull(1, "g", "%RETRY%g", 0, 0, 32, 0)))
    assert len(event.records) == 1
