"""Receiving from lite topics: which client gets which messages, in which order, and redelivery."""

from __future__ import annotations

from collections.abc import Sequence

from domain.admin.group import PutGroup
from domain.client.mqtt_session import ReadingResumed
from domain.command import DeadLetter, Disconnected, Extend, Pull, Send
from domain.errors import ErrorCode
from domain.event import Done, Extended, Pulled, Sent
from domain.message.message import Message
from domain.message.record import Record
from domain.topic import attribute
from domain.topic.lite import (
    ReceiveLite,
    SuspendLite,
)
from domain.topic.topic import Group
from gateway.usecase.waiting.read_turns import LARGE_BYTES
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder, only
from tests.gateway.usecase.lite.stage import (
    PARENT,
    ack,
    attributes,
    messages,
    notified,
    poll,
    queue_of,
    refused,
    send,
    subscribe,
)


def test_one_poll_serves_all_that_a_client_has_subscribed_to_and_nothing_else(place: Bench) -> None:
    recorder = EventRecorder()
    send(place, "a", "a1", "a2")
    send(place, "b", "b1")
    send(place, "c", "c1")
    subscribe(place, recorder, "c", "a", "b")
    got = messages(place.ask(poll(), recorder))
    assert [Record(each.record).body for each in got] == [b"a1", b"a2", b"b1"]
    assert {(each.receipt.queue_id, each.receipt.revive_queue) for each in got} == {(0, 999)}
    assert notified(place.ask(poll(), recorder)) == []
    ack(place, *got)
    assert notified(place.ask(poll(), recorder)) == []


def test_a_poll_waits_for_messages_for_settlements_and_for_the_end_of_leases(place: Bench) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    assert place.ask(poll(wait_ms=5_000), recorder) == []
    send(place, "a", "1")
    place.clock.run_for(5)
    first = messages(recorder.take())
    send(place, "a", "2")
    assert place.ask(poll(wait_ms=5_000), recorder) == [], "2 waits for 1"
    ack(place, *first)
    place.clock.run_for(5)
    assert notified(recorder.take()) == ["2"]
    assert place.ask(poll(wait_ms=20_000), recorder) == []
    place.clock.run_for(11_000)
    assert notified(recorder.take()) == ["2"], "the lease has ended"


def test_a_poll_ends_with_nothing_and_one_of_a_client_that_has_gone_takes_nothing(place: Bench) -> None:
    recorder, gone = EventRecorder(), EventRecorder()
    subscribe(place, recorder, "c", "a")
    assert place.ask(poll(wait_ms=1_000), recorder) == []
    place.clock.run_for(1_000)
    assert notified(recorder.take()) == []
    subscribe(place, gone, "d", "a")
    place.ask(poll("d", wait_ms=5_000), gone)
    place.ask(Disconnected("end"), gone)
    send(place, "a", "1")
    assert notified(place.ask(poll(), recorder)) == ["1"]


def test_a_message_that_is_given_back_comes_again_and_counts(place: Bench) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    send(place, "a", "1", "2")
    [first] = messages(place.ask(poll(limit=1), recorder))
    only(Extended, place.ask(Extend(1, "g", queue_of(first), [first.receipt], 1_000)))
    assert place.ask(poll(wait_ms=5_000), recorder) == []
    place.clock.run_for(1_500)
    got = messages(recorder.take())
    assert [(Record(each.record).body, each.attempt) for each in got] == [(b"1", 2), (b"2", 1)]


def test_one_of_several_is_given_back_and_the_others_are_settled(place: Bench) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    send(place, "a", *(str(at) for at in range(5)))
    got = messages(place.ask(poll(), recorder))
    place.ask(Extend(1, "g", queue_of(got[2]), [got[2].receipt], 1_000))
    ack(place, *got[:2], *got[3:])
    assert place.ask(poll(wait_ms=5_000), recorder) == []
    place.clock.run_for(1_500)
    assert notified(recorder.take()) == ["2"]


def test_suspending_is_no_attempt(place: Bench) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    send(place, "a", "1")
    for _ in range(5):
        [got] = messages(place.ask(poll(), recorder))
        assert got.attempt == 1
        only(Extended, place.ask(SuspendLite(1, "g", PARENT, "a", got.receipt, 500)))
        place.clock.run_for(600)


def test_attempts_run_out_and_a_consumer_may_give_up_by_itself(place: Bench) -> None:
    attributes(place)
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    send(place, "a", "1", "2")
    for attempt in (1, 2, 3):
        [got] = messages(place.ask(poll(limit=1, invisible_ms=100), recorder))
        assert got.attempt == attempt
        place.clock.run_for(200)
    [second] = messages(place.ask(poll(limit=1, wait_ms=1_000), recorder, ms=100))
    assert Record(second.record).body == b"2"
    assert place.ask(DeadLetter(1, "g", queue_of(second), second.receipt)) == [Done(1)]
    assert place.ask(DeadLetter(1, "g", queue_of(second), second.receipt)) == [Done(1)]
    event = only(Pulled, place.ask(Pull(1, "", "%DLQ%g", 0, 0, 10, 1 << 20)))
    letters = [Record(data) for data in event.records]
    assert [each.body for each in letters] == [b"1", b"2"]
    assert b"DLQ_ORIGIN_TOPIC\x01sessions\x02" in letters[0].properties
    assert b"INNER_MULTI" not in letters[0].properties


def test_members_share_a_lite_topic_and_another_group_gets_it_all(place: Bench) -> None:
    recorders = {name: EventRecorder() for name in ("c", "d")}
    for name, recorder in recorders.items():
        subscribe(place, recorder, name, "a", "b")
    place.ask(PutGroup(1, Group("h", attributes={attribute.BIND_TOPIC: PARENT})))
    subscribe(place, EventRecorder(), "e", "a", group="h")
    send(place, "a", "a1")
    send(place, "b", "b1")
    assert notified(place.ask(poll("c", limit=1), recorders["c"])) == ["a1"]
    assert notified(place.ask(poll("d"), recorders["d"])) == ["b1"]
    assert notified(place.ask(ReceiveLite(7, "e", "h", PARENT, 32, 10_000), EventRecorder())) == ["a1"]


def test_what_waited_for_a_client_that_has_gone_waits_for_the_others(place: Bench) -> None:
    first, second = EventRecorder(), EventRecorder()
    subscribe(place, first, "c", "a")
    subscribe(place, second, "d", "a")
    assert place.ask(poll("d", wait_ms=30_000), second) == []
    send(place, "a", "1")
    place.clock.run_for(5)
    assert notified(second.take()) == ["1"]
    place.clock.run_for(11_000)
    place.ask(Disconnected("end"), first)
    assert notified(place.ask(poll("d"), second)) == ["1"]


def test_expired_messages_of_lite_topics_are_counted(place: Bench) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    marks = f"__LITE_TOPIC\x01a\x02HG_EXPIRE_MS\x01{place.clock.wall_ms() - 1_000}\x02".encode()
    only(Sent, place.ask(Send(1, [Message(PARENT, b"late", marks)])))
    assert notified(place.ask(poll(), recorder)) == []
    assert place.handler.receiving.expired == 1


def test_a_waiting_poll_of_a_group_that_may_not_consume_any_more_is_refused(place: Bench) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    assert place.ask(poll(wait_ms=5_000), recorder) == []
    bound = {attribute.BIND_TOPIC: PARENT}
    assert place.ask(PutGroup(1, Group("g", consume_enable=False, attributes=bound))) == [Done(1)]
    send(place, "a", "1")
    assert refused(recorder.take()) is ErrorCode.NOT_ALLOWED


def test_messages_leased_for_a_client_that_has_gone_are_free_and_neither_counted_nor_an_attempt(place: Bench) -> None:
    gone, other = EventRecorder(), EventRecorder()
    subscribe(place, gone, "c", "a")
    subscribe(place, other, "d", "a")
    send(place, "a", "1")
    place.handler.handle(gone.connection, poll("c"))
    gone.connection.end()
    place.handler.handle(other.connection, poll("d", wait_ms=5_000))
    assert (gone.take(), other.take()) == ([], []), "the lease is being written"
    place.clock.run_for(20)
    [got] = messages(other.take())
    assert got.attempt == 1
    assert place.handler.counters.sums()[1][0] == 1


def test_a_poll_that_is_woken_while_reads_are_crowded_has_its_turn_later(place: Bench) -> None:
    reads, waiting = place.handler.reads, [0]

    class Crowd:
        """A StoreListener that reads as much as a turn may, in the turn of the arrival."""

        def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
            reads.count(LARGE_BYTES)
            place.clock.call_soon(lambda: waiting.append(reads.waiting))

        def freed(self, group: str, topic: str) -> None:
            """Reads nothing."""

    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    assert place.ask(poll(wait_ms=5_000), recorder) == []
    place.store.log.listen(Crowd())
    send(place, "a", "1")
    assert max(waiting) == 1
    place.clock.run_for(20)
    resumed, *events = recorder.take()
    assert resumed == ReadingResumed()
    assert notified(events) == ["1"]
