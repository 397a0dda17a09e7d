"""What is missing is an error or waited for, what was lost is an error or passed over; neither is an empty answer.

The readers against a broker in memory, called as the engine calls them: one that tells epochs, and one that knows RocketMQ's
requests only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gateway.client.answer import UnreachableError
from gateway.connectors.spark import option
from gateway.connectors.spark.failure import (
    MissingError,
    NoSuchTopicError,
    OffsetAheadError,
    OffsetGapError,
    TopicRemadeError,
)
from gateway.connectors.spark.reader import BatchReader
from tests.gateway.client.fake_broker import FakeBroker
from tests.gateway.connectors.spark.test_reader import ALL, SCHEMA, batch, broker, everything, fill, rows, run, stream

__all__ = ["broker"]


@contextmanager
def later(call: Callable[..., object], *given: object) -> Iterator[None]:
    """Call it in half a second, while the block runs."""
    timer = threading.Timer(0.5, call, given)
    timer.start()
    yield
    timer.join()


def remake(broker: FakeBroker, count: int, queues: int = 2) -> None:
    """Delete the topic and create it again, with messages of a later time."""
    broker.drop("orders")
    broker.create("orders", queues)
    for at in range(count):
        broker.put("orders", b"new%d" % at, at % queues, store_ms=1_800_000_000_000)


def test_a_topic_made_anew_that_is_longer_than_the_position_is_noticed(broker: FakeBroker) -> None:
    fill(broker, 20)
    reader = stream(broker)
    _, end = run(reader, reader.initialOffset())
    remake(broker, 100)
    with pytest.raises(TopicRemadeError, match=r"at offset 10 of a topic that was deleted.*failOnDataLoss=false"):
        reader.latestOffset(end, ALL)
    lenient = stream(broker, failOnDataLoss="false")
    found, after = run(lenient, end)
    assert sorted(found) == [(at % 2, at // 2, b"new%d" % at) for at in sorted(range(100), key=lambda at: (at % 2, at))]
    assert lenient.latestOffset(after, ALL) == after


def test_a_batch_of_a_deleted_topic_is_not_replayed_from_the_new_one(broker: FakeBroker) -> None:
    fill(broker, 20)
    reader = stream(broker)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    remake(broker, 100)
    with pytest.raises(TopicRemadeError):
        stream(broker).partitions(start, end)
    assert stream(broker, failOnDataLoss="false").partitions(start, end) == []


def test_a_topic_made_anew_between_plan_and_read_is_not_read(broker: FakeBroker) -> None:
    fill(broker, 20)
    strict = batch(broker)
    plan = strict.partitions()
    remake(broker, 100)
    with pytest.raises(TopicRemadeError):
        rows(strict, plan)


def test_a_deleted_topic_fails_the_stream_or_plans_nothing_until_it_is_back(broker: FakeBroker) -> None:
    fill(broker, 20)
    reader = stream(broker)
    _, end = run(reader, reader.initialOffset())
    broker.drop("orders")
    with pytest.raises(MissingError, match=r"'orders' is not at nameserver .* any more"):
        reader.latestOffset(end, ALL)
    lenient = stream(broker, failOnDataLoss="false")
    assert lenient.latestOffset(end, ALL) == end
    remake(broker, 2)
    assert sorted(run(lenient, end)[0]) == [(0, 0, b"new0"), (1, 0, b"new1")]


def test_a_broker_without_a_master_is_an_error_and_not_an_empty_answer(broker: FakeBroker) -> None:
    fill(broker, 20)
    reader = stream(broker)
    _, end = run(reader, reader.initialOffset())
    broker.masterless = True
    for given in ({}, {"failOnDataLoss": "false"}):
        with pytest.raises(MissingError, match="its broker has no master that answers"):
            batch(broker, **given).partitions()
        with pytest.raises(MissingError, match="its broker has no master that answers"):
            stream(broker, **given).latestOffset(end, ALL)
    assert stream(broker, missingQueues="wait").latestOffset(end, ALL) == end


def test_a_query_waits_for_what_it_starts_with_when_it_is_told_to(broker: FakeBroker) -> None:
    fill(broker, 20)
    broker.masterless = True
    with later(setattr, broker, "masterless", False):
        reader = batch(broker, missingQueues="wait", retryMs="50")
        assert sorted(rows(reader, reader.partitions())) == everything(20)


def test_a_stream_waits_for_a_topic_that_does_not_exist_yet_when_it_is_told_to(broker: FakeBroker) -> None:
    broker.create("other")
    with pytest.raises(NoSuchTopicError):
        stream(broker).initialOffset()
    with later(fill, broker, 4):
        reader = stream(broker, missingQueues="wait", retryMs="50")
        assert sorted(run(reader, reader.initialOffset())[0]) == everything(4)


def test_a_planned_batch_waits_for_its_broker_and_is_the_same_then(broker: FakeBroker) -> None:
    fill(broker, 20)
    reader = stream(broker, missingQueues="wait", retryMs="50")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    first = rows(reader, reader.partitions(start, end))
    broker.masterless = True
    with later(setattr, broker, "masterless", False):
        again = stream(broker, missingQueues="wait", retryMs="50")
        assert rows(again, again.partitions(start, end)) == first


def test_a_name_server_that_knows_nothing_yet_is_asked_again(broker: FakeBroker) -> None:
    with later(fill, broker, 20):
        reader = batch(broker, retryMs="5000")
        assert len(rows(reader, reader.partitions())) > 0


def test_a_pattern_that_matches_nothing_is_an_error(broker: FakeBroker) -> None:
    fill(broker, 1)
    given = {"nameserver": broker.address, "subscribePattern": "x.*", "retryMs": "50"}
    with pytest.raises(MissingError, match="has a queue that the query reads"):
        BatchReader(option.parse(given, False), SCHEMA).partitions()


def test_a_queue_whose_end_is_behind_for_a_moment_is_read_when_it_is_back(broker: FakeBroker) -> None:
    fill(broker, 20, 1)
    reader = batch(broker, retryMs="5000")
    plan = reader.partitions()
    broker.hidden["orders", 0] = 8
    with later(broker.hidden.clear):
        assert rows(reader, plan) == everything(20, 1)


def test_a_queue_that_ends_before_the_range_is_an_error(broker: FakeBroker) -> None:
    fill(broker, 20, 1)
    strict, lenient = batch(broker), batch(broker, failOnDataLoss="false")
    plan = strict.partitions()
    broker.hidden["orders", 0] = 8
    with pytest.raises(OffsetAheadError, match="is at offset 20, but the queue ends at 8"):
        rows(strict, plan)
    assert rows(lenient, plan) == everything(20, 1)[:8]


@pytest.mark.parametrize("gone", [[0], [3, 4], [9], list(range(10))])
def test_an_offset_without_a_record_is_an_error_that_names_it(broker: FakeBroker, gone: list[int]) -> None:
    fill(broker, 10, 1)
    strict, lenient = batch(broker), batch(broker, failOnDataLoss="false")
    plan = strict.partitions()
    for at in gone:
        broker.queues["orders", 0][at] = b""
    with pytest.raises(OffsetGapError, match=f"no messages at offsets {gone[0]} to {gone[-1]}, inside the range"):
        rows(strict, plan)
    assert rows(lenient, plan) == [one for at, one in enumerate(everything(10, 1)) if at not in gone]


def test_expiry_without_data_loss_errors_makes_no_empty_batches(broker: FakeBroker) -> None:
    fill(broker, 400, 2)
    reader = stream(broker, failOnDataLoss="false", maxOffsetsPerTrigger=10)
    end: Any = reader.initialOffset()
    broker.expire("orders", 0, 150)
    broker.expire("orders", 1, 190)
    sizes = []
    while True:
        found, after = run(reader, end, reader.getDefaultReadLimit())
        if after == end:
            break
        sizes.append(len(found))
        end = after
    assert sizes == [10] * 6


def test_a_run_to_the_end_does_not_wait_for_what_has_gone(broker: FakeBroker) -> None:
    fill(broker, 20)
    reader = stream(broker, failOnDataLoss="false")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    remake(broker, 4)
    _, end = run(reader, start)
    assert reader.latestOffset(end, ALL) == end


def test_a_run_to_the_end_reads_queues_that_come_back_before_its_first_batch(broker: FakeBroker) -> None:
    fill(broker, 20)
    reader = stream(broker)
    start = reader.initialOffset()
    broker.masterless = True
    reader.prepareForTriggerAvailableNow()
    assert reader.reportLatestOffset()["q"] == {}
    broker.masterless = False
    found, end = run(reader, start)
    assert sorted(found) == everything(20)
    broker.put("orders", b"late")
    assert reader.latestOffset(end, ALL) == end


def test_offsets_of_version_1_are_gone_on_from(broker: FakeBroker) -> None:
    fill(broker, 20)
    old: dict[str, object] = {"v": 1, "q": {"broker-a/orders": {"0": 4, "1": 5}}}
    reader = stream(broker)
    found, end = run(reader, old)
    assert sorted(found) == [one for one in everything(20) if one[1] >= (4, 5)[one[0]]]
    assert end["v"] == 2
    newer: dict[str, object] = {"v": 1, "q": {"broker-a/orders": {"0": 6, "1": 8}}}
    assert len(rows(reader, reader.partitions(old, newer))) == 5
    assert reader.latestOffset({"v": 1, "q": {"broker-a/orders": {"0": 10, "1": 10}}}, ALL)["v"] == 1


def test_replies_that_can_be_retried_are(broker: FakeBroker) -> None:
    fill(broker, 10, 1)
    for code in (1, 2, 14, 215, 501, 906, 1500):
        broker.answers = {11: [(code, "later")], 30: [(code, "later")], 105: [(code, "later")], 206: [(code, "later")]}
        reader = batch(broker, retryMs="5000")
        assert len(rows(reader, reader.partitions())) == 10
        assert not broker.answers[11] + broker.answers[105]


def test_a_name_server_that_is_busy_or_does_not_know_the_topic_is_not_the_last_one_asked(broker: FakeBroker) -> None:
    fill(broker, 10, 1)
    with FakeBroker() as fresh:
        fresh.create("other")
        reader = batch(broker, nameserver=f"{fresh.address};{broker.address}")
        assert len(rows(reader, reader.partitions())) == 10
        fresh.answers = {105: [(2, "busy")] * 9}
        assert len(reader.partitions()) == 1


def test_without_a_server_the_query_fails_with_the_address(broker: FakeBroker) -> None:
    fill(broker, 10, 1)
    reader = stream(broker, retryMs="50")
    _, end = run(reader, reader.initialOffset())
    broker.silent = True
    with pytest.raises(UnreachableError, match="no answer within"):
        stream(broker, retryMs="50", timeoutMs="100", failOnDataLoss="false").latestOffset(end, ALL)


def test_what_a_batch_still_has_to_read_is_held(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.connectors.spark.catalog.HOLD_AGAIN_S", 0.0)
    fill(broker, 20)
    reader = stream(broker)
    _, end = run(reader, reader.initialOffset())
    broker.put("orders", b"x", 1)
    if broker.epochs is None:
        assert broker.held == {}
        return
    assert list(broker.held.values()) == [{0: 0, 1: 0}]
    reader.latestOffset(end, ALL)
    assert list(broker.held.values()) == [{0: 10, 1: 10}]
    broker.held.clear()
    stream(broker, holdMs=0).latestOffset(end, ALL)
    assert broker.held == {}
    batch(broker).partitions()
    assert list(broker.held.values()) == [{0: 0, 1: 0}]
