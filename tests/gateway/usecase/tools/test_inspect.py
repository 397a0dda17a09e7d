"""Questions about what is stored, and changing a topic in part."""

from __future__ import annotations

import pytest

from domain.admin.broker import NodeCounters, QueryNodeCounters
from domain.admin.position import Progress, QueryProgress
from domain.admin.topic import (
    ChangeTopic,
    EarliestStoreTime,
    PutTopic,
    QueryEarliestStoreTime,
    QueryTopic,
    TopicChange,
    TopicFound,
)
from domain.command import Acknowledge, AwaitMessages, CommitOffsets, Disconnected, Receive, Send
from domain.errors import ErrorCode
from domain.event import Done, Leased, MessagesWaiting, Received, Sent
from domain.message.message import Message
from domain.topic import lite
from domain.topic.topic import Durability, Topic
from gateway.usecase.tools.inspect import Inspecting
from gateway.usecase.topics_and_groups.topic_change import TopicChanging
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder, only


@pytest.fixture
def place(bench: Bench) -> Bench:
    store = bench.store
    bench.handler.add(
        Inspecting(
            store.log, store.outlook, store.metadata, bench.handler.topics, bench.handler.rights, bench.clock, store.figures
        ),
        TopicChanging(store.metadata, bench.handler.topics),
    )
    bench.ask(PutTopic(1, Topic("T", 2, 2)))
    return bench


def topic(place: Bench, name: str) -> Topic:
    (event,) = place.ask(QueryTopic(1, name))
    assert isinstance(event, TopicFound)
    return event.topic


def test_the_earliest_message_of_a_queue(place: Bench) -> None:
    assert place.ask(QueryEarliestStoreTime(1, "T", 0)) == [EarliestStoreTime(1, -1)]
    sent = place.send("T", "first", "second")
    placed = sent.placed[0]
    assert place.ask(QueryEarliestStoreTime(1, "T", placed.queue_id)) == [EarliestStoreTime(1, placed.store_ms)]
    assert code(place.ask(QueryEarliestStoreTime(1, "T", 2))) is ErrorCode.QUEUE_ILLEGAL
    assert code(place.ask(QueryEarliestStoreTime(1, "nothing", 0))) is ErrorCode.TOPIC_NOT_FOUND


def test_the_earliest_message_of_a_lite_queue(place: Bench) -> None:
    place.ask(PutTopic(1, Topic("P", 2, 2, type="LITE")))
    name = lite.queue_name("P", "a")
    assert place.ask(QueryEarliestStoreTime(1, name, 0)) == [EarliestStoreTime(1, -1)]
    [other] = place.ask(Send(1, [Message("P", b"other", b"__LITE_TOPIC\x01b\x02")]), ms=2_000)
    sent = only(Sent, place.ask(Send(1, [Message("P", b"own", b"__LITE_TOPIC\x01a\x02")])))
    assert isinstance(other, Sent)
    assert place.ask(QueryEarliestStoreTime(1, name, 0)) == [EarliestStoreTime(1, sent.placed[0].store_ms)]
    assert sent.placed[0].store_ms > other.placed[0].store_ms
    assert code(place.ask(QueryEarliestStoreTime(1, name, 1))) is ErrorCode.QUEUE_ILLEGAL
    assert code(place.ask(QueryEarliestStoreTime(1, lite.queue_name("T", "a"), 0))) is ErrorCode.TOPIC_NOT_FOUND


def test_a_group_is_told_whether_it_has_something_to_receive(place: Bench) -> None:
    assert place.ask(AwaitMessages(1, "g", "T")) == [MessagesWaiting(1, False)]
    placed = place.send("T", "first").placed[0]
    assert place.ask(AwaitMessages(1, "g", "T")) == [MessagesWaiting(1, True)]
    place.ask(CommitOffsets(1, "g", [("T", placed.queue_id, placed.queue_offset + 1)]))
    assert place.ask(AwaitMessages(1, "g", "T")) == [MessagesWaiting(1, False)]
    assert place.ask(AwaitMessages(1, "h", "T", placed.queue_id)) == [MessagesWaiting(1, True)]


def test_it_waits_for_the_next_message_and_no_longer_than_its_time(place: Bench) -> None:
    recorder = EventRecorder()
    assert place.ask(AwaitMessages(1, "g", "T", wait_ms=5_000), recorder) == []
    place.send("T", "first")
    assert recorder.take() == [MessagesWaiting(1, True)]
    place.clock.run_for(6_000)
    assert recorder.take() == []


def leased(place: Bench, *, limit: int = 32, ordered: bool = False, attempt_id: str = "") -> list[Leased]:
    (event,) = place.ask(Receive(1, "g", "T", limit, 20_000, from_first=True, ordered=ordered, attempt_id=attempt_id))
    assert isinstance(event, Received)
    return event.messages


def test_what_others_hold_is_not_there_to_receive_until_their_leases_end(place: Bench) -> None:
    place.send("T", "first")
    assert len(leased(place)) == 1
    recorder = EventRecorder()
    assert place.ask(AwaitMessages(1, "g", "T")) == [MessagesWaiting(1, False)]
    assert place.ask(AwaitMessages(1, "g", "T", wait_ms=10_000), recorder) == []
    place.clock.run_for(10_100)
    assert recorder.take() == [MessagesWaiting(1, False)]
    assert place.ask(AwaitMessages(2, "g", "T", wait_ms=20_000), recorder) == []
    place.clock.run_for(9_000)
    assert recorder.take() == []
    place.clock.run_for(1_500)
    assert recorder.take() == [MessagesWaiting(2, True)]


def test_what_comes_behind_leases_is_announced(place: Bench) -> None:
    place.send("T", "first", "second")
    leased(place)
    recorder = EventRecorder()
    assert place.ask(AwaitMessages(1, "g", "T", wait_ms=5_000), recorder) == []
    place.send("T", "third")
    assert recorder.take() == [MessagesWaiting(1, True)]


def test_in_order_what_waits_for_its_message_group_is_not_there_but_for_the_same_attempt_it_is(place: Bench) -> None:
    place.ask(PutTopic(1, Topic("T", 1, 1)))
    place.send("T", "first", "second")
    (first,) = leased(place, limit=1, ordered=True, attempt_id="mine")
    assert place.ask(AwaitMessages(1, "g", "T", ordered=True, attempt_id="mine")) == [MessagesWaiting(1, True)]
    assert place.ask(AwaitMessages(1, "g", "T", ordered=True, attempt_id="other")) == [MessagesWaiting(1, False)]
    recorder = EventRecorder()
    assert place.ask(AwaitMessages(1, "g", "T", wait_ms=5_000, ordered=True), recorder) == []
    place.send("T", "third")
    assert recorder.take() == []
    place.ask(Acknowledge(1, "g", "T", [first.receipt]))
    assert recorder.take() == [MessagesWaiting(1, True)]


def test_it_gives_up_when_its_time_is_over(place: Bench) -> None:
    recorder = EventRecorder()
    assert place.ask(AwaitMessages(1, "g", "T", wait_ms=1_000), recorder) == []
    place.clock.run_for(1_100)
    assert recorder.take() == [MessagesWaiting(1, False)]


def test_a_client_that_has_gone_waits_no_longer(place: Bench) -> None:
    recorder = EventRecorder()
    place.ask(AwaitMessages(1, "g", "T", wait_ms=1_000), recorder)
    place.handler.handle(recorder.connection, Disconnected("end-of-stream"))
    place.clock.run_for(1_100)
    assert recorder.take() == []


def test_how_far_a_group_is(place: Bench) -> None:
    assert code(place.ask(QueryProgress(1, "g"))) is ErrorCode.GROUP_NOT_FOUND
    placed = place.send("T", "first").placed[0]
    place.ask(CommitOffsets(1, "g", [("T", placed.queue_id, 0)]))
    wanted = [Progress(1, [("T", placed.queue_id, 1, 0)])]
    assert place.ask(QueryProgress(1, "g")) == wanted
    assert place.ask(QueryProgress(1, "g", "T")) == wanted
    assert place.ask(QueryProgress(1, "g", "TBW102")) == [Progress(1, [])]
    assert code(place.ask(QueryProgress(1, "g", "nothing"))) is ErrorCode.TOPIC_NOT_FOUND


def test_figures_of_the_node(place: Bench) -> None:
    place.send("T", "first")
    (event,) = place.ask(QueryNodeCounters(1))
    assert isinstance(event, NodeCounters)
    assert event.values["messages_total"] >= 1


def test_what_a_change_does_not_name_stays(place: Bench) -> None:
    first = {"message.type": "FIFO", "durability": "page", "reserve.time": "9", "queue.type": "BatchCQ"}
    made = TopicChange("F", 4, 4, 6, attributes=first)
    assert place.ask(ChangeTopic(1, made)) == [Done(1)]
    changed = TopicChange("F", 8, 8, 7, attributes={"cleanup.policy": "DELETE"}, dropped=["queue.type"])
    assert place.ask(ChangeTopic(1, changed)) == [Done(1)]
    found = topic(place, "F")
    assert (found.type, found.durability, found.read_queues, found.perm) == ("FIFO", Durability.PAGE, 8, 6)
    assert found.attributes == {"reserve.time": "9", "cleanup.policy": "DELETE"}


@pytest.mark.parametrize("attributes", [{"mesage.type": "FIFO"}, {"cleanup.policy": "COMPACTION"}, {"reserve.time": "long"}])
def test_attributes_that_nothing_would_come_of_are_refused(place: Bench, attributes: dict[str, str]) -> None:
    assert code(place.ask(ChangeTopic(1, TopicChange("F", 4, 4, 6, attributes=attributes)))) is ErrorCode.ARGUMENT_ILLEGAL
    assert code(place.ask(QueryTopic(2, "F"))) is ErrorCode.TOPIC_NOT_FOUND


@pytest.mark.parametrize("attributes", [{"message.type": "LIGHT"}, {"durability": "magnetic"}])
def test_types_and_levels_that_do_not_exist_are_refused(place: Bench, attributes: dict[str, str]) -> None:
    assert code(place.ask(ChangeTopic(1, TopicChange("F", 4, 4, 6, attributes=attributes)))) is ErrorCode.ARGUMENT_ILLEGAL


def test_names_that_are_none_are_refused(place: Bench) -> None:
    assert code(place.ask(ChangeTopic(1, TopicChange("../F", 4, 4, 6)))) is ErrorCode.TOPIC_ILLEGAL
