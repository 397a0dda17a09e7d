"""Topics that were deleted: a send that makes none of them is refused, until the topic is made again."""

from __future__ import annotations

import pytest

from domain.admin.topic import DeleteTopic, PutTopic
from domain.command import Send
from domain.errors import ErrorCode
from domain.event import Done, Event, Refused, Sent
from domain.message.message import Message
from domain.topic.topic import Topic
from gateway.usecase.topics_and_groups import deleted_topics
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder


def delivered(bench: Bench, topic: str, queues: int = -1) -> bool:
    """Whether a send to a topic is stored; TOPIC_DELETED when it is not."""
    [event] = bench.ask(Send(1, [Message(topic, b"x")], queues=queues))
    if isinstance(event, Refused):
        assert event.failure.code is ErrorCode.TOPIC_DELETED
    return isinstance(event, Sent)


def test_what_was_never_there_is_made_and_what_was_deleted_is_not(bench: Bench) -> None:
    assert delivered(bench, "T")
    assert bench.ask(DeleteTopic(1, "T")) == [Done(1)]
    assert not delivered(bench, "T")
    assert not delivered(bench, "T"), "it was not made by the one before"


def test_a_delivery_at_the_moment_of_the_answer_is_refused(bench: Bench) -> None:
    """Before, it met neither the topic nor the name that is remembered, and made the topic again."""
    bench.ask(PutTopic(1, Topic("T")))
    recorder, sender = EventRecorder(), EventRecorder()
    bench.handler.handle(recorder.connection, DeleteTopic(1, "T"))
    answers: list[Event] = []
    while not answers:
        bench.clock.run_for(0.1)
        answers = recorder.take()
    bench.handler.handle(sender.connection, Send(2, [Message("T", b"x")], queues=-1))
    bench.clock.run_for(20)
    assert answers == [Done(1)]
    assert code(sender.take()) is ErrorCode.TOPIC_DELETED


@pytest.mark.parametrize("made", ["by a command", "on first use"])
def test_a_topic_that_is_there_again_takes_deliveries(bench: Bench, made: str) -> None:
    bench.ask(PutTopic(1, Topic("T")))
    bench.ask(DeleteTopic(1, "T"))
    assert not delivered(bench, "T")
    if made == "by a command":
        bench.ask(PutTopic(1, Topic("T")))
    else:
        assert delivered(bench, "T", queues=0)
    assert delivered(bench, "T")


def test_those_that_were_deleted_first_are_forgotten(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_topics, "KEPT_MAX", 3)
    for name in ("a", "b", "c", "d"):
        bench.ask(PutTopic(1, Topic(name)))
        bench.ask(DeleteTopic(1, name), ms=100)
    assert [delivered(bench, name) for name in ("a", "b", "c", "d")] == [True, False, False, False]
