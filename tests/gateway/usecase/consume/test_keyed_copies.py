"""Copies of a message that has a key of idempotency."""

from __future__ import annotations

from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.command import Pull, SendBack
from domain.event import Done, Pulled
from domain.message.record import Record
from domain.topic.topic import Group, Topic
from tests.gateway.usecase.bench import Bench, append, bodies
from tests.gateway.usecase.event_recorder import only


def test_a_message_with_an_idempotency_key_comes_again_as_often_as_it_is_given_back(bench: Bench) -> None:
    """The key is for the sender's repetition of a send, not for copies of the node."""
    bench.ask(PutGroup(1, Group("g", retry_max=5)))
    for topic in ("t", "u"):
        bench.ask(PutTopic(1, Topic(topic, 1, 1)))
    position = append(bench, "t", "x", **{"idempotency-key": "1"})
    for times in (1, 2, 3):
        assert bench.ask(SendBack(1, "g", position, 1), ms=2_000) == [Done(1)]
        event = only(Pulled, bench.ask(Pull(1, "g", "%RETRY%g", 0, 0, 32, 0)))
        assert len(event.records) == times
        position = Record(event.records[-1]).physical_offset
    other = append(bench, "u", "y", **{"idempotency-key": "1"})
    for each in (position, other, other):
        assert bench.ask(SendBack(1, "g", each, -1), ms=50) == [Done(1)]
    assert bodies(bench.receive("undertaker", "%DLQ%g")) == ["x", "y", "y"]
