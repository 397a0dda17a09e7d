"""What waits, and which groups consume how."""

from __future__ import annotations

from domain.command import PutTopic, Receive
from domain.errors import ErrorCode
from domain.event import Done
from domain.inventory import CountWaiting, ListModes, ModeList, SetRequestMode, Waiting
from domain.topic import Topic
from tests.gateway.usecase.test_dispatcher import Bench, bench, code

__all__ = ["bench"]


def test_receives_that_wait_are_counted_by_group_topic_and_queue(bench: Bench) -> None:
    bench.ask(PutTopic(1, Topic("t", 4, 4)))
    for queue_id in (-1, -1, 2):
        assert bench.ask(Receive(1, "g", "t", 1, 30_000, wait_ms=5_000, queue_id=queue_id)) == []
    counts = {queue_id: bench.ask(CountWaiting(2, "g", "t", queue_id)) for queue_id in (-1, 0, 2)}
    assert counts == {-1: [Waiting(2, 2)], 0: [Waiting(2, 0)], 2: [Waiting(2, 1)]}
    assert bench.ask(CountWaiting(2, "other", "t", -1)) == [Waiting(2, 0)]


def test_modes_are_what_was_set(bench: Bench) -> None:
    assert bench.ask(ListModes(1)) == [ModeList(1, [])]
    assert code(bench.ask(SetRequestMode(1, "g", "a", "POP", 3))) is ErrorCode.TOPIC_NOT_FOUND
    for name in ("a", "b"):
        assert bench.ask(PutTopic(1, Topic(name, 4, 4))) == [Done(1)]
    assert code(bench.ask(SetRequestMode(1, "bad name", "a", "POP", 3))) is ErrorCode.GROUP_ILLEGAL
    assert code(bench.ask(SetRequestMode(1, "g", "%RETRY%g", "POP", 3))) is ErrorCode.NOT_ALLOWED
    assert code(bench.ask(SetRequestMode(1, "g", "a", "PUSH", 3))) is ErrorCode.ARGUMENT_ILLEGAL
    for topic, group, mode in (("b", "g", "POP"), ("a", "g", "POP"), ("b", "g", "PULL")):
        assert bench.ask(SetRequestMode(1, group, topic, mode, 3)) == [Done(1)]
    assert bench.ask(ListModes(1)) == [ModeList(1, [("a", "g", "POP", 3), ("b", "g", "PULL", 3)])]
