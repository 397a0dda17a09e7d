"""Transactions and recall over the real store: commands of producers, and the events that they get."""

from __future__ import annotations

import pytest

from domain.admin.topic import PutTopic, QueryTopic
from domain.client.membership import Heartbeat, Leave
from domain.command import Pull, Send
from domain.delivery import recall
from domain.errors import ErrorCode
from domain.event import Done, Pulled, Sent
from domain.message import record
from domain.message.message import LOCAL_HOST, SYS_PREPARED, Message, Placed
from domain.message.record import Record
from domain.topic.topic import Topic
from domain.transaction import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    CheckTransaction,
    EndTransaction,
    Recalled,
    RecallMessage,
    ResumeTransaction,
)
from gateway.usecase.publish.recall import Recalling
from gateway.usecase.publish.transaction import TransactionEnding, TransactionResuming
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder, only
from tests.instructions import instructions


@pytest.fixture
def stage(bench: Bench) -> Bench:
    deciding = TransactionEnding(bench.store.transactions, bench.handler.registry)
    bench.store.transactions.listen(deciding)
    bench.handler.add(TransactionResuming(bench.store.log, bench.handler.topics))
    bench.handler.add(deciding, Recalling(bench.store.timers, bench.handler.topics, "broker-a", bench.clock))
    bench.ask(PutTopic(1, Topic("t", 1, 1, type="MIXED")))
    return bench


def prepare(stage: Bench, name: str, topic: str = "t", typed: bool = False) -> list[Placed]:
    stored = f"UNIQ_KEY\x01{name}\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02".encode()
    message = Message(topic, name.encode(), stored, message_id=name, sys_flag=SYS_PREPARED)
    event = only(Sent, stage.ask(Send(1, [message], typed=typed)))
    return event.placed


def seen(stage: Bench) -> list[bytes]:
    event = only(Pulled, stage.ask(Pull(1, "g", "t", 0, 0, 32, 1 << 20)))
    return [Record(record).body for record in event.records]


def test_a_decision_is_answered_when_it_holds(stage: Bench) -> None:
    [one] = prepare(stage, "one", typed=True)
    prepare(stage, "two")
    prepare(stage, "three")
    assert seen(stage) == []
    assert stage.ask(EndTransaction(5, "pg", "one", COMMIT, one.queue_offset, one.physical_offset)) == [Done(5)]
    assert stage.ask(EndTransaction(6, "pg", "two", ROLLBACK)) == [Done(6)]
    assert stage.ask(EndTransaction(7, "pg", "three", UNKNOWN)) == [Done(7)]
    assert stage.ask(EndTransaction(8, "pg", "three", COMMIT, wait=False)) == []
    assert seen(stage) == [b"one", b"three"]
    assert code(stage.ask(EndTransaction(9, "pg", "four", COMMIT))) is ErrorCode.MESSAGE_NOT_FOUND


def test_producers_of_the_group_are_asked_in_turn_while_they_are_there(stage: Bench) -> None:
    recorders = [EventRecorder(), EventRecorder(), EventRecorder()]
    for number, group in enumerate(("pg", "pg", "others")):
        stage.ask(Heartbeat(1, f"client-{number}", producers=[group]), recorders[number])
    prepare(stage, "one")
    stage.clock.run_for(40_000)
    recorded = [recorder.take() for recorder in recorders]
    assert [len(events) for events in recorded] == [1, 1, 0]
    question = recorded[0][0]
    assert isinstance(question, CheckTransaction)
    assert (question.client_id, question.group, question.message_id) == ("client-0", "pg", "one")
    assert Record(question.record).topic == "t"
    stage.ask(Leave(1, "client-0", producer_group="pg"), recorders[0])
    recorders[0].take()
    recorders[1].connection.end()
    stage.clock.run_for(30_000)
    assert [recorder.take() for recorder in recorders] == [[], [], []]
    stage.ask(EndTransaction(2, "pg", "one", COMMIT))
    assert seen(stage) == [b"one"]


def test_what_was_put_away_is_asked_about_again_when_somebody_wants_it(stage: Bench) -> None:
    stage.store.transactions.check_policy.count_max = 1
    stage.store.transactions.check_policy.interval_ms = 1_000
    producer = EventRecorder()
    stage.ask(Heartbeat(1, "client", producers=["pg"]), producer)
    [half] = prepare(stage, "one")
    stage.clock.run_for(60_000)
    assert len(producer.take()) == 1
    assert code(stage.ask(EndTransaction(2, "pg", "one", COMMIT))) is ErrorCode.MESSAGE_NOT_FOUND
    assert code(stage.ask(ResumeTransaction(3, half.physical_offset))) is ErrorCode.MESSAGE_NOT_FOUND
    event = only(Pulled, stage.ask(Pull(1, "g", "TRANS_CHECK_MAX_TIME_TOPIC", 0, 0, 32, 1 << 20)))
    [record] = event.records
    assert stage.ask(ResumeTransaction(4, Record(record).physical_offset)) == [Done(4)]
    assert seen(stage) == []
    stage.clock.run_for(20_000)
    question = only(CheckTransaction, producer.take())
    assert (question.message_id, Record(question.record).topic, Record(question.record).body) == ("one", "t", b"one")
    stage.ask(ResumeTransaction(5, Record(record).physical_offset))
    stage.ask(EndTransaction(6, "pg", "one", COMMIT))
    assert seen(stage) == [b"one"]


def test_the_topic_of_what_nobody_decided_can_be_read(stage: Bench) -> None:
    prepare(stage, "one")
    stage.clock.run_for(600_000)
    [found] = stage.ask(QueryTopic(1, "TRANS_CHECK_MAX_TIME_TOPIC"))
    assert type(found).__name__ == "TopicFound"
    event = only(Pulled, stage.ask(Pull(1, "g", "TRANS_CHECK_MAX_TIME_TOPIC", 0, 0, 32, 1 << 20)))
    assert [Record(record).body for record in event.records] == [b"one"]
    assert seen(stage) == []


def test_a_topic_of_another_type_takes_no_half_messages(stage: Bench) -> None:
    stage.ask(PutTopic(1, Topic("plain", 1, 1)))
    stored = b"UNIQ_KEY\x01x\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02"
    message = Message("plain", b"x", stored, message_id="x", sys_flag=SYS_PREPARED)
    assert code(stage.ask(Send(1, [message], typed=True))) is ErrorCode.TYPE_CONFLICT


def test_a_timer_is_recalled_by_its_handle_alone(stage: Bench) -> None:
    due = stage.clock.wall_ms() + 60_000
    message = Message("t", b"later", f"UNIQ_KEY\x01u\x02TIMER_DELIVER_MS\x01{due}\x02".encode(), message_id="u")
    sent = only(Sent, stage.ask(Send(1, [message])))
    handle = sent.placed[0].recall_handle
    for topic, text, wanted in (
        ("absent", handle, ErrorCode.TOPIC_NOT_FOUND),
        ("t", "?", ErrorCode.ARGUMENT_ILLEGAL),
        ("t", recall.handle("other", "broker-a", due, "u"), ErrorCode.ARGUMENT_ILLEGAL),
        ("t", recall.handle("t", "broker-b", due, "u"), ErrorCode.ARGUMENT_ILLEGAL),
        ("t", recall.handle("t", "broker-a", due, "v"), ErrorCode.MESSAGE_NOT_FOUND),
        ("t", recall.handle("t", "broker-a", 5, "u"), ErrorCode.MESSAGE_NOT_FOUND),
    ):
        assert code(stage.ask(RecallMessage(2, topic, text))) is wanted
    assert stage.ask(RecallMessage(3, "t", handle.rstrip("="))) == [Recalled(3, "u")]
    stage.clock.run_for(120_000)
    assert seen(stage) == []


def test_a_question_costs_the_same_however_many_producers_a_group_has(bench: Bench) -> None:
    deciding = TransactionEnding(bench.store.transactions, bench.handler.registry)
    half = record.encode(Message("t", b"x", b"UNIQ_KEY\x01one\x02", queue_id=0), 0, 0, 0, LOCAL_HOST)
    producers: list[EventRecorder] = []
    costs: list[int] = []
    for count in (10, 500):
        while len(producers) < count:
            producers.append(EventRecorder())
            bench.handler.handle(producers[-1].connection, Heartbeat(1, f"p{len(producers)}", producers=["pg"]))
        costs.append(instructions(lambda: deciding.undecided("pg", half, 3)))
        asked = [each for each in producers if any(isinstance(event, CheckTransaction) for event in each.take())]
        assert asked == [producers[3]]
    assert costs[0] == costs[1]
