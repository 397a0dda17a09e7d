"""The readers against a broker in memory, called as the engine calls them, without a session."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from gateway.client.answer import KeyRefusedError, NotPermittedError
from gateway.client.security import AccessKey
from gateway.connectors.spark import column, option
from gateway.connectors.spark.failure import (
    MissingError,
    NoSuchTopicError,
    OffsetAheadError,
    OffsetBackwardError,
    OffsetExpiredError,
)
from gateway.connectors.spark.reader import BatchReader, StreamReader
from tests.gateway.client.fake_broker import FakeBroker

ALL = ReadAllAvailable()
SCHEMA = column.arrow_schema(column.struct("queueId,queueOffset,body"))


@pytest.fixture(params=[True, False], ids=["headgate", "rocketmq"])
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    """A broker that tells epochs, and one that knows RocketMQ's requests only."""
    monkeypatch.setattr("gateway.connectors.spark.catalog.ROUTES_CACHED_S", 0.0)
    monkeypatch.setattr("gateway.connectors.spark.catalog._PAUSE_S", 0.01)
    monkeypatch.setattr("gateway.connectors.spark.scan._PAUSE_S", 0.01)
    with FakeBroker(extended=request.param) as broker:
        yield broker


def options(broker: FakeBroker, streaming: bool, **given: Any) -> option.Options:
    named = {name: str(value) for name, value in given.items()}
    return option.parse({"nameserver": broker.address, "topic": "orders", "retryMs": "300", **named}, streaming)


def batch(broker: FakeBroker, **given: Any) -> BatchReader:
    return BatchReader(options(broker, False, **given), SCHEMA)


def stream(broker: FakeBroker, **given: Any) -> StreamReader:
    return StreamReader(options(broker, True, **given), SCHEMA)


def rows(reader: BatchReader | StreamReader, partitions: Sequence[InputPartition]) -> list[tuple[int, int, bytes]]:
    """The rows of all tasks. Reader and partitions are pickled, as Spark does."""
    out = []
    for partition in partitions:
        task: BatchReader = pickle.loads(pickle.dumps(reader))
        for one in task.read(pickle.loads(pickle.dumps(partition))):
            assert one.schema.equals(SCHEMA)
            out += [(row["queueId"], row["queueOffset"], row["body"]) for row in one.to_pylist()]
    return out


def fill(broker: FakeBroker, count: int, queues: int = 2, topic: str = "orders") -> None:
    broker.create(topic, queues)
    for at in range(count):
        broker.put(topic, b"%d" % at, at % queues)


def everything(count: int, queues: int = 2) -> list[tuple[int, int, bytes]]:
    return sorted((at % queues, at // queues, b"%d" % at) for at in range(count))


def run(reader: StreamReader, start: Any, limit: Any = ALL) -> tuple[list[tuple[int, int, bytes]], Any]:
    end = reader.latestOffset(start, limit)
    return rows(reader, reader.partitions(start, end)), end


def test_a_batch_reads_everything_once(broker: FakeBroker) -> None:
    fill(broker, 101)
    broker.pull_max = 7
    reader = batch(broker, maxRecordsPerPartition=20)
    assert len(reader.partitions()) == 6
    assert sorted(rows(reader, reader.partitions())) == everything(101)


def test_a_batch_without_rows_has_no_partitions_and_reads_nothing_from_the_empty_one(broker: FakeBroker) -> None:
    broker.create("orders", 2)
    assert batch(broker).partitions() == []
    assert list(batch(broker).read(InputPartition(None))) == []


def test_a_batch_between_offsets(broker: FakeBroker) -> None:
    fill(broker, 100, 1)
    reader = batch(broker, startingOffsets='{"orders":{"0":10}}', endingOffsets='{"orders":{"0":12}}')
    assert rows(reader, reader.partitions()) == [(0, 10, b"10"), (0, 11, b"11")]


def test_a_batch_between_times(broker: FakeBroker) -> None:
    broker.create("orders")
    for at in range(10):
        broker.put("orders", b"%d" % at, store_ms=1000 * at)
    reader = batch(broker, startingTimestamp=2500, endingTimestamp=5000)
    assert [body for _, _, body in rows(reader, reader.partitions())] == [b"3", b"4"]


def test_a_batch_that_would_end_before_it_starts_is_refused(broker: FakeBroker) -> None:
    fill(broker, 10, 1)
    with pytest.raises(OffsetBackwardError, match=r"Topic 'orders', queue 0 on broker-a: .* end at offset 2, before .* at 5"):
        batch(broker, startingOffsets='{"orders":{"0":5}}', endingOffsets='{"orders":{"0":2}}').partitions()


def test_topics_by_list_and_by_pattern(broker: FakeBroker) -> None:
    for topic in ("orders", "returns", "other", "%RETRY%orders", "rmq_sys_orders"):
        fill(broker, 3, 1, topic)
    listed = BatchReader(option.parse({"nameserver": broker.address, "topics": "orders,returns"}, False), SCHEMA)
    assert len(rows(listed, listed.partitions())) == 6
    matched = BatchReader(option.parse({"nameserver": broker.address, "subscribePattern": ".*(orders|returns)"}, False), SCHEMA)
    assert len(rows(matched, matched.partitions())) == 6


def test_an_unknown_topic_is_named_with_the_nearest(broker: FakeBroker) -> None:
    fill(broker, 1)
    with pytest.raises(
        NoSuchTopicError, match=r"Topic 'order' does not exist at nameserver .* Did you mean orders\? Create it"
    ):
        batch(broker, topic="order").partitions()
    with pytest.raises(NoSuchTopicError):
        stream(broker, topic="order").initialOffset()


def test_a_stream_reads_every_message_once(broker: FakeBroker) -> None:
    fill(broker, 10)
    reader = stream(broker)
    first, end = run(reader, reader.initialOffset())
    assert sorted(first) == everything(10)
    assert reader.latestOffset(end, ALL) == end
    broker.put("orders", b"new", 1)
    second, _ = run(reader, end)
    assert second == [(1, 5, b"new")]


def test_the_first_batch_is_planned_even_when_it_is_empty(broker: FakeBroker) -> None:
    fill(broker, 10)
    reader = stream(broker, startingOffsets="latest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert end != start
    assert reader.partitions(start, end) == []
    assert reader.latestOffset(end, ALL) == end


def test_a_moving_start_stays_where_the_checkpoint_has_it(broker: FakeBroker) -> None:
    fill(broker, 10, 1)
    before = stream(broker, startingOffsets="latest")
    start = before.initialOffset()
    broker.put("orders", b"a")
    assert before.initialOffset() == start
    end = before.latestOffset(start, ALL)
    broker.put("orders", b"b")
    after = stream(broker, startingOffsets="latest")
    again = after.initialOffset()
    assert again != start
    assert rows(after, after.partitions(again, end)) == [(0, 10, b"a")]
    assert run(after, end)[0] == [(0, 11, b"b")]


def test_a_starting_time_is_a_moving_start_too(broker: FakeBroker) -> None:
    broker.create("orders")
    for at in range(10):
        broker.put("orders", b"%d" % at, store_ms=1000 * at)
    reader = stream(broker, startingTimestamp=7500)
    assert [body for _, _, body in run(reader, reader.initialOffset())[0]] == [b"8", b"9"]


def test_a_limit_bounds_each_batch(broker: FakeBroker) -> None:
    fill(broker, 100)
    reader = stream(broker, maxOffsetsPerTrigger=30)
    assert reader.getDefaultReadLimit() == ReadMaxRows(30)
    assert stream(broker).getDefaultReadLimit() == ALL
    end, seen = reader.initialOffset(), []
    sizes = []
    while True:
        found, end = run(reader, end, ReadMaxRows(30))
        if not found:
            break
        sizes.append(len(found))
        seen += found
    assert sizes == [30, 30, 30, 10]
    assert sorted(seen) == everything(100)


def test_available_now_reads_to_the_end_at_its_start(broker: FakeBroker) -> None:
    fill(broker, 20)
    reader = stream(broker)
    reader.prepareForTriggerAvailableNow()
    broker.put("orders", b"late")
    broker.create("orders", 3)
    broker.put("orders", b"late", 2)
    end, seen = reader.initialOffset(), []
    for _ in range(10):
        found, after = run(reader, end, ReadMaxRows(7))
        seen += found
        if after == end:
            break
        end = after
    assert after == end
    assert sorted(seen) == everything(20)


def test_a_new_queue_is_read_from_its_beginning(broker: FakeBroker) -> None:
    fill(broker, 10)
    reader = stream(broker, startingOffsets="latest")
    _, end = run(reader, reader.initialOffset())
    broker.create("orders", 3)
    broker.put("orders", b"a", 2)
    broker.put("orders", b"b", 2)
    assert run(reader, end)[0] == [(2, 0, b"a"), (2, 1, b"b")]


def test_a_queue_that_no_longer_exists_fails_the_query_or_keeps_its_position(broker: FakeBroker) -> None:
    fill(broker, 10)
    reader = stream(broker)
    _, end = run(reader, reader.initialOffset())
    del broker.queues["orders", 1]
    broker.put("orders", b"x", 0)
    with pytest.raises(MissingError, match=r"queue 1 on broker-a does not exist any more.*missingQueues=wait"):
        reader.latestOffset(end, ALL)
    for given in ({"missingQueues": "wait"}, {"failOnDataLoss": "false"}):
        found, after = run(stream(broker, **given), end)
        assert found == [(0, 5, b"x")]
        assert after["q"]["broker-a/orders"] == {"0": 6, "1": 5}


def test_expired_messages_fail_the_query_with_the_missing_offsets(broker: FakeBroker) -> None:
    fill(broker, 20, 1)
    reader = stream(broker, startingOffsets='{"orders":{"0":2}}')
    start = reader.initialOffset()
    broker.expire("orders", 0, 6)
    with pytest.raises(OffsetExpiredError, match=r"queue 0 on broker-a: offsets 2 to 5 are gone.*failOnDataLoss=false"):
        reader.latestOffset(start, ALL)
    lenient = stream(broker, failOnDataLoss="false")
    end = lenient.latestOffset(start, ALL)
    assert [offset for _, offset, _ in rows(lenient, lenient.partitions(start, end))] == list(range(6, 20))


def test_messages_that_expire_between_plan_and_read(broker: FakeBroker) -> None:
    fill(broker, 20, 1)
    strict, lenient = batch(broker), batch(broker, failOnDataLoss="false")
    plans = strict.partitions(), lenient.partitions()
    broker.expire("orders", 0, 6)
    with pytest.raises(OffsetExpiredError, match="offsets 0 to 5 are gone"):
        rows(strict, plans[0])
    assert [offset for _, offset, _ in rows(lenient, plans[1])] == list(range(6, 20))


def test_a_topic_created_again_fails_the_query_or_is_read_from_its_beginning(broker: FakeBroker) -> None:
    fill(broker, 20, 1)
    reader = stream(broker)
    _, end = run(reader, reader.initialOffset())
    broker.queues["orders", 0] = []
    broker.put("orders", b"anew")
    with pytest.raises(OffsetAheadError, match=r"is at offset 20, but the queue ends at 1.*new checkpoint"):
        reader.latestOffset(end, ALL)
    lenient = stream(broker, failOnDataLoss="false")
    assert run(lenient, end)[0] == [(0, 0, b"anew")]


def test_a_batch_from_the_log_that_runs_backward_is_refused(broker: FakeBroker) -> None:
    fill(broker, 20, 1)
    reader = stream(broker)
    with pytest.raises(OffsetBackwardError):
        reader.partitions({"v": 1, "q": {"broker-a/orders": {"0": 9}}}, {"v": 1, "q": {"broker-a/orders": {"0": 5}}})
    with pytest.raises(OffsetAheadError, match="the queue ends at 20"):
        reader.partitions({"v": 1, "q": {"broker-a/orders": {"0": 9}}}, {"v": 1, "q": {"broker-a/orders": {"0": 25}}})


def test_progress_shows_the_end_of_all_queues(broker: FakeBroker) -> None:
    fill(broker, 5)
    assert stream(broker).reportLatestOffset()["q"] == {"broker-a/orders": {"0": 3, "1": 2}}


def test_partitions_are_small(broker: FakeBroker) -> None:
    fill(broker, 1_000, 1)
    [one] = batch(broker).partitions()
    assert len(pickle.dumps(one)) < 400


@pytest.mark.parametrize("kind", ["file", "variable"])
def test_readers_read_with_an_access_key_and_carry_none(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    fill(broker, 20)
    text = "alice:wonderland\nt0k3n"
    (tmp_path / "key").write_text(text)
    monkeypatch.setenv("ALICES_KEY", text)
    given = {"accessKeyFile": tmp_path / "key"} if kind == "file" else {"accessKeyEnv": "ALICES_KEY"}
    broker.keys = (AccessKey("alice", "wonderland", "t0k3n"),)
    one, many = batch(broker, **given), stream(broker, **given)
    assert sorted(rows(one, one.partitions())) == everything(20)
    start = many.initialOffset()
    end = many.latestOffset(start, ALL)
    parts = many.partitions(start, end)
    assert sorted(rows(many, parts)) == everything(20)
    shown = [repr(each) for each in (one.__dict__, many.__dict__, start, end, [part.__dict__ for part in parts])]
    pickled = [dumps(each) for dumps in (pickle.dumps, cloudpickle.dumps) for each in (one, many, [*parts], start, end)]
    for secret in (b"wonderland", b"t0k3n"):
        assert not [each for each in (*(text.encode() for text in shown), *pickled) if secret in each]


def test_refusals_are_errors_at_once_also_of_a_query_that_waits(broker: FakeBroker, tmp_path: Path) -> None:
    fill(broker, 20)
    (tmp_path / "key").write_text("alice:another")
    broker.keys = (AccessKey("alice", "wonderland"),)
    given = {"accessKeyFile": tmp_path / "key", "missingQueues": "wait", "retryMs": 1_000_000}
    with pytest.raises(KeyRefusedError, match="check signature failed"):
        stream(broker, **given).initialOffset()
    with pytest.raises(KeyRefusedError, match="check signature failed"):
        batch(broker, **given).partitions()
    (tmp_path / "key").write_text("alice:wonderland")
    reader = batch(broker, **given)
    broker.answers[11] = [(16, "User:alice has no permission for Sub on Group:TOOLS_CONSUMER")]
    with pytest.raises(NotPermittedError, match=r"reading orders queue 0 at broker-a: .* Sub on Group:TOOLS_CONSUMER"):
        rows(reader, reader.partitions())


def test_an_unknown_topic_is_named_to_a_user_who_may_not_list_topics(broker: FakeBroker) -> None:
    fill(broker, 1)
    broker.answers[206] = [(16, "User:alice has no permission for List on Cluster:DefaultCluster")] * 100
    with pytest.raises(NoSuchTopicError, match="'ordres' does not exist"):
        BatchReader(options(broker, False, topic="ordres"), SCHEMA).partitions()
    with pytest.raises(NotPermittedError, match="List on Cluster:DefaultCluster"):
        BatchReader(option.parse({"nameserver": broker.address, "subscribePattern": ".*"}, False), SCHEMA).partitions()
