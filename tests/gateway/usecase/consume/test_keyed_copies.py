"""Copies of a message that has a key of idempotency."""

from __future__ import annotations

from domain import property as properties
from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.command import Pull, SendBack
from domain.errors import Failure
from domain.event import Done, Pulled
from domain.message import Message, Placed
from domain.record import Record
from domain.topic import Group, Topic
from tests.gateway.usecase.bench import Bench, bench, bodies

__all__ = ["bench"]


def append(bench: Bench, topic: str, body: str, **marks: str) -> int:
    """A message that is stored; its position in the log."""
    stored = properties.encode([("UNIQ_KEY", body), *marks.items()])
    placed: list[int] = []

    def done(result: list[Placed] | Failure) -> None:
        assert not isinstance(result, Failure)
        placed.append(result[0].physical_offset)

    bench.store.log.append([Message(topic, body.encode(), stored, queue_id=0)], done)
    bench.clock.run_for(20)
    return placed[0]


def test_a_message_with_an_idempotency_key_comes_again_as_often_as_it_is_given_back(bench: Bench) -> None:
    """The key is for the sender's repetition of a send, not for copies of the node."""
    bench.ask(PutGroup(1, Group("g", retry_max=5)))
    for topic in ("t", "u"):
        bench.ask(PutTopic(1, Topic(topic, 1, 1)))
    position = append(bench, "t", "x", **{"idempotency-key": "1"})
    for times in (1, 2, 3):
        assert bench.ask(SendBack(1, "g", position, 1), ms=2_000) == [Done(1)]
        [event] = bench.ask(Pull(1, "g", "%RETRY%g", 0, 0, 32, 0))
        assert isinstance(event, Pulled)
        assert len(event.records) == times
        position = Record(event.records[-1]).physical_offset
    other = append(bench, "u", "y", **{"idempotency-key": "1"})
    for each in (position, other, other):
        assert bench.ask(SendBack(1, "g", each, -1), ms=50) == [Done(1)]
    assert bodies(bench.receive("undertaker", "%DLQ%g")) == ["x", "y", "y"]
