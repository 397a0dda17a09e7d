"""Retry topics: no group reads another's, whatever their names; what earlier versions left in them is read by its owner."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from domain import limits
from domain.address import pop_retry_topic, pop_retry_topic_v1
from domain.admin.group import PutGroup, RedriveGroup
from domain.admin.message import MessagesFound, Peek, Peeked, QueryMessages
from domain.admin.topic import DeleteTopic, PutTopic
from domain.command import (
    Acknowledge,
    AwaitMessages,
    DeadLetter,
    Extend,
    FollowTopic,
    Pull,
    Receive,
    Send,
    SendBack,
)
from domain.errors import ErrorCode
from domain.event import Done, Extended, MessagesWaiting, Pulled, Received, Settled, TopicFollowed
from domain.message import property as properties
from domain.message.message import Message
from domain.message.receipt import RETRY_V1, RETRY_V2, Receipt
from domain.message.record import Record
from domain.topic.topic import Group, Topic
from gateway.usecase.consume.redrive import Redriving
from gateway.usecase.tools.inspect import Inspecting
from gateway.usecase.tools.query import Querying
from tests.gateway.usecase.bench import Bench, bodies, code
from tests.gateway.usecase.bench import append as append_to
from tests.gateway.usecase.event_recorder import EventRecorder, only

OLD = "%RETRY%a_b_c"
MOVED = {"1ST_POP_TIME": "1"}


def furnished(bench: Bench) -> Bench:
    """Groups and topics whose retry topics had one name."""
    for group in ("a", "a_b", "a_b_c"):
        bench.ask(PutGroup(1, Group(group, retry_max=0)))
    for topic in ("c", "b_c", OLD):
        bench.ask(PutTopic(1, Topic(topic, 1, 1)))
    return bench


def append(bench: Bench, topic: str, body: str, **marks: str) -> int:
    """A message as an earlier version has stored it; its position in the log."""
    return append_to(bench, topic, body, KEYS="k", **marks)


def left_by_an_earlier_version(bench: Bench) -> list[int]:
    """One message of each owner in the topic of this name."""
    return [
        append(bench, OLD, "of a_b", RETRY_TOPIC="c", **MOVED), append(bench, OLD, "of a", RETRY_TOPIC="b_c", **MOVED),
        append(bench, OLD, "of a_b_c", RETRY_TOPIC="c", ORIGIN_MESSAGE_ID="M"),
    ]  # fmt: skip


def pulled(bench: Bench, group: str, topic: str = OLD) -> list[str]:
    event = only(Pulled, bench.ask(Pull(1, group, topic, 0, 0, 32, 0)))
    return bodies(event)


def texts(records: Sequence[bytes]) -> list[str]:
    return [Record(each).body.decode() for each in records]


def test_a_receive_has_the_messages_of_its_own_group_and_topic(bench: Bench) -> None:
    left_by_an_earlier_version(furnished(bench))
    assert bodies(bench.receive("a", "b_c", wait_ms=100)) == ["of a"]
    mine = bench.receive("a_b", "c")
    assert bodies(mine) == ["of a_b"]
    assert mine.messages[0].receipt.retry == RETRY_V1
    assert bench.ask(Acknowledge(1, "a_b", "c", [mine.messages[0].receipt])) == [Settled(1, [None])]
    assert bodies(bench.receive("a_b_c", OLD)) == ["of a_b_c"]
    bench.clock.run_for(20_000)
    assert bodies(bench.receive("a_b", "c")) == [], "it is settled"
    assert bodies(bench.receive("a_b_c", "c")) == bodies(bench.receive("a_b_c", "b_c")) == []


def test_a_waiting_receive_is_not_given_the_message_of_another(bench: Bench) -> None:
    furnished(bench)
    recorder = EventRecorder()
    assert bench.ask(Receive(1, "a", "b_c", 32, 10_000, 1_000, from_first=True), recorder) == []
    append(bench, OLD, "of a_b", RETRY_TOPIC="c", **MOVED)
    bench.clock.run_for(500)
    assert recorder.take() == []
    append(bench, OLD, "of a", RETRY_TOPIC="b_c", **MOVED)
    event = only(Received, recorder.take())
    assert bodies(event) == ["of a"]


def test_readers_by_offset_have_what_is_for_their_group(bench: Bench) -> None:
    first, _, last = left_by_an_earlier_version(furnished(bench))
    assert [pulled(bench, group) for group in ("a_b_c", "a_b", "a", "stranger", "")] == [
        ["of a_b_c"], ["of a_b"], ["of a"], ["of a_b_c"], ["of a_b_c"],
    ]  # fmt: skip
    store, handler = bench.store, bench.handler
    handler.add(Querying(store.log, store.positions, store.metadata, handler.registry, handler.questions, handler.reads))
    found = only(MessagesFound, bench.ask(QueryMessages(1, OLD, "k")))
    assert texts(found.records) == ["of a_b_c"]
    followed = only(TopicFollowed, bench.ask(FollowTopic(1, OLD, {}, "first", -1, 0, 32, 1 << 20)))
    assert texts(followed.records) == ["of a_b_c"]
    peeked = only(Peeked, bench.ask(Peek(1, "a_b", OLD, -1, 32)))
    assert texts(peeked.records) == ["of a_b"]
    assert code(bench.ask(SendBack(1, "a_b_c", first, -1))) is ErrorCode.MESSAGE_NOT_FOUND
    assert bench.ask(SendBack(1, "a_b_c", last, -1)) == [Done(1)]


def test_a_pull_at_the_end_of_a_retry_topic_waits_over_the_messages_of_others(bench: Bench) -> None:
    furnished(bench)
    append(bench, OLD, "of a_b", RETRY_TOPIC="c", **MOVED)
    recorder = EventRecorder()
    assert bench.ask(Pull(1, "a_b_c", OLD, 0, 0, 32, 0, 1_000), recorder) == []
    append(bench, OLD, "of a_b_c", RETRY_TOPIC="c", ORIGIN_MESSAGE_ID="M")
    event = only(Pulled, recorder.take())
    assert (bodies(event), event.next_offset) == (["of a_b_c"], 2)


def test_a_made_up_receipt_makes_no_dead_letter_of_anothers_message(bench: Bench) -> None:
    left_by_an_earlier_version(furnished(bench))
    made_up = Receipt(0, 1, 1, 0, RETRY_V1, "broker-a", 0, 0)
    assert code(bench.ask(DeadLetter(1, "a", "b_c", made_up))) is ErrorCode.RECEIPT_INVALID
    assert bench.ask(DeadLetter(1, "a_b", "c", made_up)) == [Done(1)]
    assert bodies(bench.receive("undertaker", "%DLQ%a_b")) == ["of a_b"]


def test_what_lies_behind_in_a_topic_that_only_one_pair_can_have_is_given_to_it(bench: Bench) -> None:
    """A message from a dead-letter topic has the RETRY_TOPIC of its first life."""
    furnished(bench)
    append(bench, "%RETRY%a_%DLQ%x", "again", RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="M", **MOVED)
    for topic in ("%DLQ%x", "%RETRY%a_%DLQ%x"):
        bench.ask(PutTopic(1, Topic(topic, 1, 1)))
    assert bodies(bench.receive("a", "%DLQ%x")) == ["again"]


def test_a_message_that_lies_behind_goes_on_in_the_retry_topic_of_its_pair(bench: Bench) -> None:
    """The answer to its receive says so with `r` = 2, and every verb finds it again (RocketMQ's ExtraInfoUtil)."""
    furnished(bench)
    store, handler = bench.store, bench.handler
    handler.add(
        Inspecting(store.log, store.outlook, store.metadata, handler.topics, handler.rights, bench.clock, dict),
        Redriving(store.log, store.positions, store.metadata, handler.topics, handler.sending),
    )
    bench.ask(PutGroup(1, Group("a_b", retry_max=30)))
    bench.send("c", "behind")
    for _ in range(10):
        [message] = bench.receive("a_b", "c", invisible_ms=60_000).messages
        assert message.receipt.retry == 0
        bench.clock.run_for(60_000)
    new = pop_retry_topic("a_b", "c")
    assert new == "%RETRY%a_b+c"
    assert bodies(bench.receive("a_b", "c", wait_ms=100)) == ["behind"]
    assert bench.handler.topics.find(pop_retry_topic_v1("a_b", "c")) is not None, "the test has made that"
    assert bodies(bench.receive("a", "b_c")) == pulled(bench, "a_b_c") == []
    bench.clock.run_for(10_000)
    [again] = bench.receive("a_b", "c").messages
    assert (again.receipt.retry, again.attempt) == (RETRY_V2, 12)
    event = only(Extended, bench.ask(Extend(1, "a_b", "c", [again.receipt], 1_000)))
    receipt = only(Receipt, event.outcomes)
    assert receipt.retry == RETRY_V2
    assert bench.ask(AwaitMessages(1, "a_b", "c", -1, 0)) == [MessagesWaiting(1, False)]
    bench.clock.run_for(1_100)
    assert bench.ask(AwaitMessages(1, "a_b", "c", -1, 0)) == [MessagesWaiting(1, True)]
    [again] = bench.receive("a_b", "c").messages
    assert bench.ask(DeadLetter(1, "a_b", "c", again.receipt)) == [Done(1)]
    [letter] = bench.receive("undertaker", "%DLQ%a_b").messages
    assert properties.text(Record(letter.record).properties, "DLQ_ORIGIN_TOPIC") == "c"
    bench.clock.run_for(20_000)
    assert bodies(bench.receive("a_b", "c")) == []
    bench.ask(RedriveGroup(1, "a_b"), ms=100)
    assert bodies(bench.receive("a_b", "c")) == ["behind"]
    assert bodies(bench.receive("a", "b_c")) == pulled(bench, "a_b_c") == []


def test_clients_do_not_make_such_topics_and_deletion_of_the_topic_takes_them_away(bench: Bench) -> None:
    furnished(bench)
    assert code(bench.ask(PutTopic(1, Topic(pop_retry_topic("a_b", "c"), 1, 1)))) is ErrorCode.TOPIC_ILLEGAL
    for group, topic in (("a_b", "c"), ("a", "b_c"), ("a", "c")):
        bench.handler.topics.ensure(pop_retry_topic(group, topic), lambda _: None)
    bench.clock.run_for(50)
    assert bench.ask(DeleteTopic(1, "c")) == [Done(1)]
    there = [bench.handler.topics.find(pop_retry_topic(*pair)) is not None for pair in (("a_b", "c"), ("a", "b_c"), ("a", "c"))]
    assert there == [False, True, False]
    refused: list[object] = []
    bench.handler.topics.ensure("%RETRY%a+b+c", refused.append)
    assert getattr(refused[0], "code", None) is ErrorCode.TOPIC_ILLEGAL


@pytest.mark.parametrize("orderly", [False, True])
def test_a_dead_letter_with_all_the_properties_there_can_be_holds_up_nothing(bench: Bench, orderly: bool) -> None:
    """Earlier versions took so many from clients."""
    bench.ask(PutGroup(1, Group("g", retry_max=0, orderly=orderly)))
    bench.ask(PutTopic(1, Topic("t", 1, 1)))
    most = limits.PROPERTIES_BYTES_MAX
    largest = b"UNIQ_KEY\x01M\x02p\x01" + b"v" * (most - 14) + b"\x02"
    for stored in (largest, b""):
        bench.store.log.append([Message("t", b"poison" if stored else b"next", stored, queue_id=0)], lambda _: None)
    bench.clock.run_for(20)
    assert len(bench.receive("g", "t", 1, invisible_ms=100).messages) == 1
    bench.clock.run_for(200)
    assert bodies(bench.receive("g", "t", wait_ms=100)) == ["next"]
    [letter] = bench.receive("undertaker", "%DLQ%g").messages
    assert Record(letter.record).body == b"poison"
    assert len(Record(letter.record).properties) == most


def test_a_message_with_all_the_properties_there_can_be_is_sent_back(bench: Bench) -> None:
    bench.ask(PutGroup(1, Group("g")))
    bench.ask(PutTopic(1, Topic("t", 1, 1)))
    position = append(bench, "t", "x", p="v" * (limits.PROPERTIES_BYTES_MAX - 30))
    assert bench.ask(SendBack(1, "g", position, 3), ms=50) == [Done(1)]
    assert pulled(bench, "g", "%RETRY%g") == ["x"], "at once: there is no room for its delay"


@pytest.mark.parametrize("fits", [True, False])
def test_clients_leave_room_for_the_marks_of_the_node(bench: Bench, fits: bool) -> None:
    """Of the 32,767 bytes of a message a client may use 31,743; the id that the node makes is one of its marks."""
    bench.ask(PutTopic(1, Topic("t", 1, 1)))
    stored = b"p\x01" + b"v" * (limits.CLIENT_PROPERTIES_BYTES_MAX - 3 + (not fits)) + b"\x02HG_PROTOCOL\x01http\x02"
    for messages in ([Message("t", b"x", stored)], [Message("t", b"y"), Message("t", b"x", stored)]):
        events = bench.ask(Send(1, messages))
        if fits:
            assert len(events) == 1
        else:
            assert code(events) is ErrorCode.PROPERTIES_TOO_LARGE
    assert (limits.PROPERTIES_BYTES_MAX, limits.CLIENT_PROPERTIES_BYTES_MAX) == (32_767, 31_743)
    assert bench.ask(Send(1, [Message("t", b"x", stored)], wait=False)) == []
    assert len(bench.receive("g", "t").messages) == (4 if fits else 0)
