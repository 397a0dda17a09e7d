"""The use cases over the real store: commands of clients, and the events that they get."""

from __future__ import annotations

import pytest

from domain.admin.group import PutGroup
from domain.admin.topic import Bounds, DeleteTopic, PutTopic, QueryBounds, QueryTopic, SearchOffset, TopicFound
from domain.client.membership import Heartbeat, Leave, Members, MembersChanged, Membership, QueryMembers, Subscription
from domain.command import (
    Acknowledge,
    CommitOffsets,
    DeadLetter,
    Disconnected,
    Extend,
    Pull,
    QueryOffset,
    Receive,
    Send,
    SendBack,
)
from domain.errors import ErrorCode
from domain.event import Done, Extended, Offset, Pulled, Received, Refused, Settled
from domain.message import property as properties
from domain.message.message import Message
from domain.message.receipt import Receipt
from domain.message.record import Record
from domain.topic.topic import Group, Topic
from store.settings import StoreSettings
from tests.gateway.usecase.bench import Bench, bodies, code, open_bench
from tests.gateway.usecase.event_recorder import EventRecorder, only


def test_a_first_send_makes_the_topic_and_names_the_message(bench: Bench) -> None:
    sent = bench.send("fresh", "a", "b")
    assert len(sent.placed) == 2
    assert len({placed.message_id for placed in sent.placed}) == 2
    found = only(TopicFound, bench.ask(QueryTopic(1, "fresh")))
    assert found.topic.write_queues == 8


@pytest.mark.parametrize(("wanted", "given"), [(0, 8), (1, 1), (4, 4), (16, 8), (-3, 8)])
def test_a_topic_that_a_send_makes_has_the_queues_that_its_sender_wants_up_to_the_nodes_own(
    bench: Bench, wanted: int, given: int
) -> None:
    bench.ask(Send(1, [Message("fresh", b"x")], queues=wanted))
    (found,) = bench.ask(QueryTopic(2, "fresh"))
    assert isinstance(found, TopicFound)
    assert (found.topic.read_queues, found.topic.write_queues) == (given, given)


def test_an_ordering_key_decides_the_queue(bench: Bench) -> None:
    places = [bench.send("t", "x", group="station-7").placed[0].queue_id for _ in range(5)]
    assert len(set(places)) == 1


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), ErrorCode.TOPIC_ILLEGAL),
        (Message("a/b", b"x"), ErrorCode.TOPIC_ILLEGAL),
        (Message("t", b"x" * (4 * 1024 * 1024 + 1)), ErrorCode.MESSAGE_TOO_LARGE),
        (Message("t", b"x", b"k\x01" + b"v" * 32_766 + b"\x02"), ErrorCode.PROPERTIES_TOO_LARGE),
        (Message("t", b"x", queue_id=8), ErrorCode.QUEUE_ILLEGAL),
    ],
)
def test_what_cannot_be_sent_is_refused_whole(bench: Bench, message: Message, expected: ErrorCode) -> None:
    assert code(bench.ask(Send(1, [Message("t", b"good"), message]))) is expected
    [event] = bench.ask(QueryBounds(1, "t"))
    assert isinstance(event, Refused) or all(first == following for _, first, following in event.queues)  # type: ignore[attr-defined]


def test_a_pull_waits_for_a_message_and_then_for_its_time(bench: Bench) -> None:
    placed = bench.send("t", "first").placed[0]
    recorder = EventRecorder()
    pull = Pull(7, "g", "t", placed.queue_id, 1, 32, 0, wait_ms=5000)
    assert bench.ask(pull, recorder) == []
    bench.ask(Send(1, [Message("t", b"second", queue_id=placed.queue_id)]))
    event = only(Pulled, recorder.take())
    assert (event.ticket, event.status, bodies(event), event.next_offset) == (7, "FOUND", ["second"], 2)
    event = only(Pulled, bench.ask(Pull(8, "g", "t", placed.queue_id, 2, 32, 0, wait_ms=300), ms=400))
    assert (event.status, event.min_offset, event.max_offset) == ("EMPTY", 0, 2)


def test_a_pull_out_of_range_is_told_where_to_go(bench: Bench) -> None:
    queue_id = bench.send("t", "a").placed[0].queue_id
    event = only(Pulled, bench.ask(Pull(1, "g", "t", queue_id, 99, 32, 0, wait_ms=5000)))
    assert (event.status, event.next_offset) == ("TOO_LARGE", 1)
    event = only(Pulled, bench.ask(Pull(1, "g", "t", queue_id, -1, 32, 0)))
    assert (event.status, event.next_offset) == ("TOO_SMALL", 0)
    assert code(bench.ask(Pull(1, "g", "t", 8, 0, 32, 0))) is ErrorCode.QUEUE_ILLEGAL
    assert code(bench.ask(Pull(1, "g", "nowhere", 0, 0, 32, 0))) is ErrorCode.TOPIC_NOT_FOUND


def test_leases_are_exclusive_until_settled_or_expired(bench: Bench) -> None:
    bench.send("t", "a", "b", "c")
    first = bench.receive("g", "t")
    assert bodies(first) == ["a", "b", "c"]
    assert [message.attempt for message in first.messages] == [1, 1, 1]
    assert bench.receive("g", "t").messages == []
    assert bodies(bench.receive("other", "t")) == ["a", "b", "c"]
    settled = {Record(message.record).body: message.receipt for message in first.messages}
    [event] = bench.ask(Acknowledge(1, "g", "t", [settled[b"a"], settled[b"b"]]))
    assert event == Settled(1, [None, None])
    bench.clock.run_for(10_000)
    again = bench.receive("g", "t")
    assert bodies(again) == ["c"]
    assert (again.messages[0].attempt, Record(again.messages[0].record).reconsume_times) == (2, 1)
    event = only(Settled, bench.ask(Acknowledge(1, "g", "t", [settled[b"c"]])))
    assert event.outcomes[0] is not None
    assert event.outcomes[0].code is ErrorCode.RECEIPT_EXPIRED


def test_giving_back_frees_at_once_and_wakes_a_waiting_member(bench: Bench) -> None:
    bench.send("t", "a")
    [leased] = bench.receive("g", "t").messages
    recorder = EventRecorder()
    assert bench.ask(Receive(2, "g", "t", 1, 10_000, wait_ms=8000, from_first=True), recorder) == []
    event = only(Extended, bench.ask(Extend(1, "g", "t", [leased.receipt], 0)))
    assert isinstance(event.outcomes[0], Receipt)
    bench.clock.run_for(100)
    received = only(Received, recorder.take())
    assert bodies(received) == ["a"]


def test_a_message_that_its_client_never_read_goes_back_without_an_attempt_and_wakes_a_waiting_member(bench: Bench) -> None:
    """However often: messages that a client never read must not become dead letters."""
    bench.ask(PutGroup(1, Group("g", retry_max=1)))
    bench.send("t", "a")
    for _ in range(5):
        [leased] = bench.receive("g", "t").messages
        assert (leased.attempt, bench.receive("g", "t").messages) == (1, [])
        [event] = bench.ask(Extend(1, "g", "t", [leased.receipt], 0, untold=True))
        assert event == Extended(1, [leased.receipt])
    [leased] = bench.receive("g", "t").messages
    recorder = EventRecorder()
    assert bench.ask(Receive(2, "g", "t", 1, 100, wait_ms=8000, from_first=True), recorder) == []
    bench.ask(Extend(1, "g", "t", [leased.receipt], 0, untold=True))
    bench.clock.run_for(50)
    received = only(Received, recorder.take())
    assert (bodies(received), received.messages[0].attempt) == (["a"], 1)
    bench.clock.run_for(200)
    [leased] = bench.receive("g", "t").messages
    assert leased.attempt == 2, "its lease has run out"
    bench.ask(Extend(1, "g", "t", [leased.receipt], 0, untold=True))
    [leased] = bench.receive("g", "t").messages
    assert leased.attempt == 2, "the same of one that was delivered before"


def test_used_up_attempts_end_in_the_dead_letter_topic(bench: Bench) -> None:
    bench.ask(PutGroup(1, Group("g", retry_max=1)))
    bench.send("t", "poison")
    for _ in range(2):
        assert bodies(bench.receive("g", "t", invisible_ms=100)) == ["poison"]
        bench.clock.run_for(200)
    assert bench.receive("g", "t", invisible_ms=100).messages == []
    bench.clock.run_for(500)
    assert bench.receive("g", "t").messages == []
    [letter] = bench.receive("undertaker", "%DLQ%g").messages
    stored = Record(letter.record)
    assert stored.body == b"poison"
    assert properties.text(stored.properties, "DLQ_ORIGIN_TOPIC") == "t"


def test_a_message_is_moved_to_the_dead_letters_once(bench: Bench) -> None:
    bench.send("t", "a")
    [leased] = bench.receive("g", "t").messages
    assert bench.ask(DeadLetter(1, "g", "t", leased.receipt)) == [Done(1)]
    assert bench.ask(DeadLetter(1, "g", "t", leased.receipt)) == [Done(1)]
    assert len(bench.receive("undertaker", "%DLQ%g").messages) == 1


def test_a_message_given_back_comes_again_after_its_delay(bench: Bench) -> None:
    placed = bench.send("t", "a").placed[0]
    bench.ask(Heartbeat(1, "c", consumers=[Membership("g", subscriptions=[Subscription("t")])]))
    assert bench.ask(SendBack(1, "g", placed.physical_offset, 1)) == [Done(1)]
    event = only(Pulled, bench.ask(Pull(1, "g", "%RETRY%g", 0, 0, 32, 0)))
    assert event.records == []
    bench.clock.run_for(1_000)
    event = only(Pulled, bench.ask(Pull(1, "g", "%RETRY%g", 0, 0, 32, 0)))
    [record] = [Record(record) for record in event.records]
    assert (record.reconsume_times, properties.text(record.properties, "RETRY_TOPIC")) == (1, "t")
    assert bench.ask(SendBack(1, "g", record.physical_offset, 0, retry_max=1)) == [Done(1)]
    assert bodies(bench.receive("u", "%DLQ%g")) == ["a"]


def test_a_member_that_begins_at_an_instant_is_told_of_no_position_until_there_is_one(bench: Bench) -> None:
    queue_id = bench.send("t", "a").placed[0].queue_id
    member = EventRecorder()
    late = Membership("late", from_where="CONSUME_FROM_TIMESTAMP")
    bench.ask(Heartbeat(1, "c", consumers=[late, Membership("last")]), member)
    assert code(bench.ask(QueryOffset(1, "late", "t", queue_id), member)) is ErrorCode.OFFSET_NOT_FOUND
    assert bench.ask(QueryOffset(1, "last", "t", queue_id), member) == [Offset(1, 0)]
    assert code(bench.ask(QueryOffset(1, "late", "t", queue_id))) is ErrorCode.OFFSET_NOT_FOUND, "asked by its VIP channel"
    assert bench.ask(QueryOffset(1, "last", "t", queue_id)) == [Offset(1, 0)]
    bench.ask(CommitOffsets(1, "late", [("t", queue_id, 1)]), member)
    assert bench.ask(QueryOffset(1, "late", "t", queue_id), member) == [Offset(1, 1)]


def test_a_new_group_is_told_of_a_position_only_while_all_that_there_was_is_in_the_newest_part_of_the_log() -> None:
    bench = open_bench(StoreSettings(hot_bytes=3_000))
    queue_id = bench.send("t", "a" * 1_000).placed[0].queue_id
    assert bench.ask(QueryOffset(1, "g", "t", queue_id)) == [Offset(1, 0)]
    other = (queue_id + 1) % 8
    bench.send("u", *["b" * 1_000] * 4)
    assert code(bench.ask(QueryOffset(1, "g", "t", queue_id))) is ErrorCode.OFFSET_NOT_FOUND
    assert bench.ask(QueryOffset(1, "g", "t", other)) == [Offset(1, 0)], "a queue that never had anything has nothing to skip"


@pytest.mark.parametrize(("topic", "queue_id"), [("nosuch", 0), ("t", 99), ("t", -1)])
def test_nobody_begins_at_zero_in_a_queue_that_does_not_exist(bench: Bench, topic: str, queue_id: int) -> None:
    bench.ask(Send(1, [Message("t", b"x")]))
    assert code(bench.ask(QueryOffset(2, "g", topic, queue_id))) is ErrorCode.OFFSET_NOT_FOUND


def test_positions_are_kept_and_found(bench: Bench) -> None:
    queue_id = bench.send("t", "a").placed[0].queue_id
    assert bench.ask(QueryOffset(1, "g", "t", queue_id)) == [Offset(1, 0)]
    assert code(bench.ask(QueryOffset(1, "g", "t", queue_id, zero_if_absent=False))) is ErrorCode.OFFSET_NOT_FOUND
    assert bench.ask(CommitOffsets(1, "g", [("t", queue_id, 1)])) == [Done(1)]
    assert bench.ask(QueryOffset(1, "g", "t", queue_id)) == [Offset(1, 1)]
    assert code(bench.ask(CommitOffsets(1, "g", [("t", 99, 1)]))) is ErrorCode.QUEUE_ILLEGAL
    event = only(Bounds, bench.ask(QueryBounds(1, "t", queue_id)))
    assert event.queues == [(queue_id, 0, 1)]
    assert bench.ask(SearchOffset(1, "t", queue_id, bench.clock.wall_ms() + 1)) == [Offset(1, 1)]


def test_members_come_go_and_are_told_of_each_other(bench: Bench) -> None:
    one, two = EventRecorder(), EventRecorder()
    part = [Membership("g", subscriptions=[Subscription("t")])]
    assert bench.ask(Heartbeat(1, "one", consumers=part), one) == [MembersChanged(None, "g"), Done(1)]
    bench.ask(Heartbeat(1, "two", consumers=part), two)
    assert one.take() == [MembersChanged(None, "g")]
    assert bench.ask(QueryMembers(1, "g")) == [Members(1, ["one", "two"])]
    only(TopicFound, bench.ask(QueryTopic(1, "%RETRY%g")))
    bench.handler.handle(two.connection, Disconnected("closed"))
    assert one.take() == [MembersChanged(None, "g")]
    assert bench.ask(QueryMembers(1, "g")) == [Members(1, ["one"])]
    bench.ask(Leave(1, "one"), one)
    assert code(bench.ask(QueryMembers(1, "g"))) is ErrorCode.GROUP_OFFLINE


def test_members_of_a_group_that_notifies_nobody_are_told_nothing_of_each_other(bench: Bench) -> None:
    bench.ask(PutGroup(1, Group("g", notify=False)))
    one, two = EventRecorder(), EventRecorder()
    assert bench.ask(Heartbeat(1, "one", consumers=[Membership("g")]), one) == [Done(1)]
    assert bench.ask(Heartbeat(1, "two", consumers=[Membership("g")]), two) == [Done(1)]
    assert bench.ask(QueryMembers(1, "g")) == [Members(1, ["one", "two"])]
    bench.ask(Leave(1, "two"), two)
    assert one.take() == []


def test_a_silent_member_is_forgotten_after_two_minutes(bench: Bench) -> None:
    bench.ask(Heartbeat(1, "one", consumers=[Membership("g")]))
    bench.clock.run_for(119_000)
    assert bench.ask(QueryMembers(1, "g")) == [Members(1, ["one"])]
    bench.clock.run_for(15_000)
    assert code(bench.ask(QueryMembers(1, "g"))) is ErrorCode.GROUP_OFFLINE


def test_topics_are_put_and_deleted(bench: Bench) -> None:
    assert bench.ask(PutTopic(1, Topic("wide", 16, 16))) == [Done(1)]
    assert code(bench.ask(PutTopic(1, Topic("TBW102")))) is ErrorCode.TOPIC_ILLEGAL
    assert code(bench.ask(PutTopic(1, Topic("t", perm=64)))) is ErrorCode.ARGUMENT_ILLEGAL
    bench.send("wide", "a")
    assert bench.ask(DeleteTopic(1, "wide")) == [Done(1)]
    assert code(bench.ask(DeleteTopic(1, "wide"))) is ErrorCode.TOPIC_NOT_FOUND
    assert code(bench.ask(QueryTopic(1, "wide"))) is ErrorCode.TOPIC_NOT_FOUND


def test_a_client_that_left_is_not_answered_and_its_poll_is_taken_out(bench: Bench) -> None:
    recorder = EventRecorder()
    bench.ask(Receive(1, "g", "t2", 1, 1000, wait_ms=5000), recorder)
    recorder.take()
    bench.send("t2", "a")
    bench.ask(Receive(2, "h", "t2", 1, 1000, wait_ms=20_000), recorder)
    recorder.take()
    bench.handler.handle(recorder.connection, Disconnected("closed"))
    assert bench.handler.receiving.waiting() == 0
    bench.send("t2", "b")
    assert recorder.take() == []
