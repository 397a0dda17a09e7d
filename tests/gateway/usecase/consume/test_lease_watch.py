"""AwaitSettled: a reader learns on its own connection what was settled on another."""

from __future__ import annotations

import pytest

from domain.admin.topic import PutTopic
from domain.command import Acknowledge, AwaitSettled, Extend
from domain.event import Extended, LeasesEnded
from domain.message.receipt import Receipt
from domain.topic.topic import Topic
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder


@pytest.fixture
def leased(bench: Bench) -> list[Receipt]:
    bench.ask(PutTopic(1, Topic("T", 1, 1)))
    bench.send("T", "a", "b", "c")
    return [message.receipt for message in bench.receive("g", "T").messages]


def wait(bench: Bench, reader: EventRecorder, receipts: list[Receipt], wait_ms: int = 5_000) -> list[object]:
    return list(bench.ask(AwaitSettled(1, "s", "g", "T", receipts, wait_ms), reader))


def test_what_others_settle_is_told_together_and_between_two_commands_too(bench: Bench, leased: list[Receipt]) -> None:
    reader = EventRecorder()
    assert wait(bench, reader, leased) == []
    bench.ask(Acknowledge(1, "g", "T", leased[:2]))
    assert reader.take() == [LeasesEnded(1, 2)]
    bench.ask(Acknowledge(1, "g", "T", leased[2:]))
    assert wait(bench, reader, []) == [LeasesEnded(1, 1)]
    assert bench.handler.lease_watches.watched == 0


def test_a_release_ends_a_lease_and_an_extension_does_not(bench: Bench, leased: list[Receipt]) -> None:
    reader = EventRecorder()
    assert wait(bench, reader, leased, 30_000) == []
    (extended,) = bench.ask(Extend(1, "g", "T", leased[:1], 20_000))
    assert isinstance(extended, Extended)
    bench.ask(Extend(1, "g", "T", leased[1:2], 0))
    assert reader.take() == [LeasesEnded(1, 1)]
    assert bench.ask(AwaitSettled(1, "s", "g", "T", [], 12_000), reader, ms=11_000) == [LeasesEnded(1, 1)], "10 s are over"
    (again,) = extended.outcomes
    assert isinstance(again, Receipt)
    bench.ask(Acknowledge(1, "g", "T", [again]))
    assert wait(bench, reader, []) == [LeasesEnded(1, 1)]


def test_the_wait_is_over_without_an_end(bench: Bench, leased: list[Receipt]) -> None:
    assert bench.ask(AwaitSettled(1, "s", "g", "T", leased, 1_000), ms=1_100) == [LeasesEnded(1, 0)]


def test_a_connection_that_closes_watches_nothing(bench: Bench, leased: list[Receipt]) -> None:
    reader = EventRecorder()
    assert wait(bench, reader, leased) == []
    reader.connection.end()
    assert bench.handler.lease_watches.watched == 0
    bench.ask(Acknowledge(1, "g", "T", leased))
    assert reader.take() == []
