"""Retries: the group's policy decides when, its limit of attempts how often, for pulls, receives and messages sent back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from domain.admin.group import DeleteGroup, PutGroup
from domain.admin.topic import DeleteTopic, PutTopic, QueryTopic, TopicFound
from domain.client.membership import Heartbeat, LockQueues, Membership, Subscription
from domain.command import Acknowledge, Pull, Receive, SendBack, SendRetry
from domain.delivery.retry import DEFAULT, RetryPolicy
from domain.errors import ErrorCode, Failure
from domain.event import Done, Event, Pulled, Received, Sent
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import Group, Topic
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder, only

EXPONENTIAL = RetryPolicy("EXPONENTIAL", initial_ms=200, max_ms=1_000)


def test_delays_by_policy() -> None:
    assert [DEFAULT.delay_ms(times) for times in (-1, 0, 1, 15, 16, 99)] == [
        10_000, 10_000, 30_000, 7_200_000, 7_200_000, 7_200_000,
    ]  # fmt: skip
    assert [EXPONENTIAL.delay_ms(times) for times in (0, 1, 2, 3, 500)] == [200, 400, 800, 1_000, 1_000]
    assert [RetryPolicy(steps_ms=(1, 2, 3, 4)).delay_ms(times) for times in (0, 1, 2)] == [3, 4, 4]
    assert RetryPolicy(steps_ms=(7,)).delay_ms(0) == 7


def returned(bench: Bench) -> list[Record]:
    event = only(Pulled, bench.ask(Pull(1, "g", "%RETRY%g", 0, 0, 32, 0)))
    return [Record(record) for record in event.records]


@pytest.mark.parametrize("wanted", [1, 3])
def test_a_retry_topic_has_the_queues_that_its_group_wants(bench: Bench, wanted: int) -> None:
    bench.ask(PutGroup(1, Group("g", retry_queues=wanted, retry=RetryPolicy(steps_ms=(1, 1, 10)))))
    placed = bench.send("t", *"abcdef").placed
    bench.ask(Heartbeat(1, "c", consumers=[Membership("g", subscriptions=[Subscription("t")])]))
    event = only(TopicFound, bench.ask(QueryTopic(1, "%RETRY%g")))
    assert (event.topic.read_queues, event.topic.write_queues) == (wanted, wanted)
    for each in placed:
        assert bench.ask(SendBack(1, "g", each.physical_offset, 0)) == [Done(1)]
    bench.clock.run_for(100)
    found = [bench.ask(Pull(1, "g", "%RETRY%g", queue_id, 0, 32, 0)) for queue_id in range(wanted)]
    counts = [len(event.records) for [event] in found if isinstance(event, Pulled)]
    assert (sum(counts), min(counts)) == (6, 6 // wanted)
    assert bench.ask(SendBack(1, "g", placed[0].physical_offset, -1)) == [Done(1)]
    dead = bench.store.metadata.topic("%DLQ%g")
    assert dead is not None
    assert dead.read_queues == 1


@pytest.mark.parametrize("level", [-1, 0, 3])
def test_a_group_that_wants_no_retry_queue_is_done_with_what_it_gives_back(bench: Bench, level: int) -> None:
    bench.ask(PutGroup(1, Group("g", retry_queues=0)))
    [placed] = bench.send("t", "a").placed
    bench.ask(Heartbeat(1, "c", consumers=[Membership("g", subscriptions=[Subscription("t")])]))
    end = bench.store.figures()["log_end"]
    assert bench.ask(SendBack(1, "g", placed.physical_offset, level)) == [Done(1)]
    assert bench.store.figures()["log_end"] == end
    assert bench.store.metadata.topic("%DLQ%g") is None


@pytest.mark.parametrize(("policy", "delay_ms"), [(EXPONENTIAL, 200), (RetryPolicy(steps_ms=(1, 2, 700)), 700)])
def test_what_is_given_back_waits_as_the_policy_says(bench: Bench, policy: RetryPolicy, delay_ms: int) -> None:
    bench.ask(PutGroup(1, Group("g", retry=policy)))
    placed = bench.send("t", "a").placed[0]
    bench.ask(Heartbeat(1, "c", consumers=[Membership("g", subscriptions=[Subscription("t")])]))
    assert bench.ask(SendBack(1, "g", placed.physical_offset, 0)) == [Done(1)]
    bench.clock.run_for(delay_ms - 60)
    assert returned(bench) == []
    bench.clock.run_for(150)
    [record] = returned(bench)
    assert record.reconsume_times == 1
    assert record.store_ms >= placed.store_ms + delay_ms
    assert b"TIMER" not in record.properties


def test_a_changed_policy_counts_at_once(bench: Bench) -> None:
    bench.ask(PutGroup(1, Group("g", retry=EXPONENTIAL)))
    placed = bench.send("t", "a").placed[0]
    bench.ask(Heartbeat(1, "c", consumers=[Membership("g", subscriptions=[Subscription("t")])]))
    bench.ask(SendBack(1, "g", placed.physical_offset, 0))
    bench.clock.run_for(300)
    bench.ask(PutGroup(1, Group("g", retry=RetryPolicy("EXPONENTIAL", initial_ms=10_000), retry_max=2)))
    bench.ask(SendBack(1, "g", returned(bench)[0].physical_offset, 0))
    bench.clock.run_for(19_000)
    assert len(returned(bench)) == 1
    bench.clock.run_for(2_000)
    record = returned(bench)[1]
    assert record.reconsume_times == 2
    assert bench.ask(SendBack(1, "g", record.physical_offset, 0)) == [Done(1)]
    [letter] = bench.receive("undertaker", "%DLQ%g").messages
    stored = Record(letter.record).properties
    assert properties.text(stored, properties.DLQ_ORIGIN_TOPIC) == "t"
    assert properties.text(stored, properties.DLQ_ORIGIN_MESSAGE_ID) == placed.message_id


@pytest.mark.parametrize("ordered", [False, True])
def test_a_limit_that_was_lowered_counts_for_who_waits_already(bench: Bench, ordered: bool) -> None:
    bench.ask(PutGroup(1, Group("g", orderly=ordered)))
    bench.ask(PutTopic(1, Topic("t", 1, 1)))
    bench.handler.sending.submit([Message("t", b"poison"), Message("t", b"next")], None)
    bench.clock.run_for(20)
    receive = Receive(1, "g", "t", 1, 100, from_first=True, ordered=ordered)
    recorder = EventRecorder()
    only(Received, bench.ask(receive, recorder))
    assert (
        bench.ask(Receive(2, "g", "t", 1, 60_000, 5_000, from_first=True, ordered=True), recorder, ms=10) == [] or not ordered
    )
    bench.ask(PutGroup(1, Group("g", orderly=ordered, retry_max=0)))
    bench.clock.run_for(500)
    recorded = [event for event in recorder.take() if isinstance(event, Received)]
    if not ordered:
        later = bench.ask(Receive(3, "g", "t", 1, 60_000, 500, from_first=True), ms=600)
        recorded += [event for event in later if isinstance(event, Received)]
    assert [Record(each.record).body for event in recorded for each in event.messages] == [b"next"]
    [letter] = bench.receive("undertaker", "%DLQ%g").messages
    assert Record(letter.record).body == b"poison"
    assert properties.text(Record(letter.record).properties, properties.DLQ_ORIGIN_TOPIC) == "t"
    receipts = [each.receipt for event in recorded for each in event.messages]
    bench.ask(Acknowledge(1, "g", "t", receipts))


class Breaking:
    """A store that refuses dead letters while `is_failing`."""

    def __init__(self, bench: Bench) -> None:
        self.is_failing = True
        self.held: list[Callable[[], None]] = []
        self._append = bench.store.log.append
        bench.handler.sending._log = self  # type: ignore[assignment]

    def append(self, messages: list[Message], done: Any, changes: Any = ()) -> None:
        if any(message.topic.startswith("%DLQ%") for message in messages):
            if self.is_failing:
                done(Failure(ErrorCode.STORE_UNAVAILABLE, "no room"))
            else:
                if self.held:
                    pytest.fail("one dead letter is being stored already")  # no Exception, which the store would log
                self.held.append(partial(self._append, messages, done, changes))
        else:
            self._append(messages, done, changes)


def two_ordering_keys(bench: Bench) -> None:
    """An ordered group for which `bad` has no attempts left; one message behind it has its ordering key, one another key."""
    bench.ask(PutGroup(1, Group("g", orderly=True, retry_max=0)))
    bench.ask(PutTopic(1, Topic("t", 1, 1)))
    places = [("bad", "A"), ("next", "A"), ("other", "B")]
    messages = [Message("t", body.encode(), properties.encode([("__SHARDINGKEY", key)]), queue_id=0) for body, key in places]
    bench.handler.sending.submit(messages, None)
    bench.clock.run_for(20)
    only(Received, bench.ask(Receive(1, "g", "t", 1, 100, from_first=True)))
    bench.clock.run_for(200)


def bodies_in(events: list[Event]) -> list[list[bytes]]:
    return [[Record(each.record).body for each in event.messages] for event in events if isinstance(event, Received)]


def test_nothing_of_its_ordering_key_passes_a_dead_letter_before_its_copy_is_stored(bench: Bench) -> None:
    two_ordering_keys(bench)
    store = Breaking(bench)
    store.is_failing = False
    recorder = EventRecorder()
    assert bench.ask(Receive(2, "g", "t", 32, 60_000, 2_000, from_first=True), recorder, ms=500) == []
    assert len(store.held) == 1
    others = bench.ask(Receive(3, "g", "t", 32, 60_000, from_first=True))
    assert bodies_in(others) == [[]], "and nobody else gets it meanwhile"
    store.held.pop()()
    bench.clock.run_for(50)
    assert bodies_in(recorder.take()) == [[b"next", b"other"]]
    assert len(bench.receive("undertaker", "%DLQ%g").messages) == 1


def test_a_dead_letter_that_cannot_be_stored_holds_back_its_own_ordering_key_only(bench: Bench) -> None:
    two_ordering_keys(bench)
    store = Breaking(bench)
    recorder = EventRecorder()
    event = only(Received, bench.ask(Receive(2, "g", "t", 32, 1_000, from_first=True), recorder))
    assert bodies_in([event]) == [[b"other"]]
    bench.ask(Acknowledge(1, "g", "t", [event.messages[0].receipt]))
    bench.clock.run_for(2_000)
    store.is_failing = False
    bench.ask(Receive(3, "g", "t", 32, 1_000, 1_000, from_first=True), recorder, ms=100)
    store.held.pop()()
    bench.clock.run_for(100)
    assert bodies_in(recorder.take()) == [[b"next"]], "the letter is stored first; what it held back has not lost an attempt"


def test_a_receive_with_an_attempt_id_stores_a_dead_letter_once(bench: Bench) -> None:
    bench.ask(PutGroup(1, Group("g", retry_max=0)))
    for name in ("t", "%DLQ%g"):
        bench.ask(PutTopic(1, Topic(name, 1, 1)))
    bench.handler.sending.submit([Message("t", b"poison", b"", queue_id=0)], None)
    bench.clock.run_for(20)
    first = Receive(1, "g", "t", 1, 100, from_first=True)
    only(Received, bench.ask(first))
    bench.clock.run_for(200)
    store = Breaking(bench)
    store.is_failing = False
    recorder = EventRecorder()
    waiting = Receive(2, "g", "t", 32, 60_000, 2_000, from_first=True, attempt_id="attempt")
    assert bench.ask(waiting, recorder, ms=500) == []
    assert len(store.held) == 1, "what the attempt holds is not moved again while its dead letter is being stored"
    store.held.pop()()
    bench.clock.run_for(2_500)
    assert store.held == []
    assert bodies_in(recorder.take()) == [[]]
    assert len(bench.receive("undertaker", "%DLQ%g").messages) == 1


def retried(bench: Bench, times: int, most: int = -1) -> None:
    stored = properties.encode([("UNIQ_KEY", "M"), ("RETRY_TOPIC", "t"), ("DELAY", "1"), ("ORIGIN_MESSAGE_ID", "O")])
    message = Message("%RETRY%g", b"x", stored, message_id="M", reconsume_times=times)
    only(Sent, bench.ask(SendRetry(1, [message], "g", most)))
    bench.clock.run_for(1_100)


@pytest.mark.parametrize(("times", "most"), [(4, -1), (3, 2)])
def test_a_retry_beyond_the_limit_is_a_dead_letter(bench: Bench, times: int, most: int) -> None:
    bench.ask(PutGroup(1, Group("g", retry_max=3)))
    retried(bench, times, most)
    [letter] = bench.receive("undertaker", "%DLQ%g").messages
    stored = Record(letter.record).properties
    assert b"DELAY" not in stored
    assert properties.text(stored, properties.DLQ_ORIGIN_TOPIC) == "t"
    assert properties.text(stored, properties.DLQ_ORIGIN_MESSAGE_ID) == "O"


def test_a_retry_within_the_limit_comes_again_unless_queues_are_locked(bench: Bench) -> None:
    bench.ask(PutGroup(1, Group("g", retry_max=3)))
    retried(bench, 3)
    assert len(returned(bench)) == 1
    bench.ask(LockQueues(1, "g", "orderly", [("broker-a", "t", 0)]))
    retried(bench, 1)
    assert len(returned(bench)) == 1
    assert len(bench.receive("undertaker", "%DLQ%g").messages) == 1


def test_an_ordered_group_is_ordered_for_those_too_who_do_not_ask_for_it(bench: Bench) -> None:
    bench.ask(PutGroup(1, Group("g", orderly=True)))
    bench.ask(PutTopic(1, Topic("t", 1, 1)))
    bench.send("t", "a1", "a2", group="a")
    [first] = bench.receive("g", "t", limit=1).messages
    assert first.receipt.revive_queue == 999
    assert bench.receive("g", "t").messages == []
    bench.ask(Acknowledge(1, "g", "t", [first.receipt]))
    assert [Record(each.record).body for each in bench.receive("g", "t").messages] == [b"a2"]


def test_what_was_to_come_again_of_a_topic_goes_with_it(bench: Bench) -> None:
    """DeleteTopic deletes the POP retry topics of the topic, of every group (RocketMQ: clearRetryTopicWhenDeleteTopic)."""
    bench.ask(PutGroup(1, Group("g")))
    for name in ("T", "T2"):
        bench.ask(PutTopic(1, Topic(name, 1, 1)))
        bench.handler.sending.submit([Message(f"%RETRY%g_{name}", b"again", queue_id=0)], None)
    bench.clock.run_for(50)
    assert bench.ask(DeleteTopic(1, "T")) == [Done(1)]
    bench.ask(PutTopic(1, Topic("T", 1, 1)))
    bench.send("T", "new")
    assert [Record(each.record).body for each in bench.receive("g", "T").messages] == [b"new"]
    assert [Record(each.record).body for each in bench.receive("g", "T2").messages] == [b"again"], "no other topic's"


def test_a_retry_topic_that_is_anothers_too_stays(bench: Bench) -> None:
    """The name %RETRY%a_b_c is of group a_b on c, of group a on b_c, and of group a_b_c itself."""
    for group in ("a", "a_b"):
        bench.ask(PutGroup(1, Group(group)))
    for name in ("c", "b_c"):
        bench.ask(PutTopic(1, Topic(name, 1, 1)))
    bench.handler.sending.submit([Message("%RETRY%a_b_c", b"again", queue_id=0)], None)
    bench.clock.run_for(50)
    assert bench.ask(DeleteTopic(1, "c")) == [Done(1)]
    assert bench.handler.topics.find("%RETRY%a_b_c") is not None
    bench.ask(PutGroup(1, Group("a_b_c")))
    assert bench.ask(DeleteTopic(1, "b_c")) == [Done(1)]
    assert bench.handler.topics.find("%RETRY%a_b_c") is not None
    bench.ask(PutTopic(1, Topic("c", 1, 1)))
    assert bench.ask(DeleteGroup(1, "a_b_c")) == [Done(1)]
    assert bench.ask(DeleteTopic(1, "c")) == [Done(1)]
    assert bench.handler.topics.find("%RETRY%a_b_c") is None
