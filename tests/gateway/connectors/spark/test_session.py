"""The source in a Spark session, against a broker in memory: behaviour that needs the engine."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.gateway.client.fake_broker import FakeBroker
from tests.gateway.connectors.spark.session import session

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark")) as spark:
        yield spark


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


def fill(broker: FakeBroker, count: int, queues: int = 3) -> None:
    broker.create("orders", queues)
    for at in range(count):
        tags = {"TAGS": f"t{at % 2}", "KEYS": f"k{at}", "UNIQ_KEY": f"ID{at}", "colour": "red"}
        broker.put("orders", b"%d" % at, at % queues, properties=tags, store_ms=1_700_000_000_000 + at)


def read(spark: SparkSession, broker: FakeBroker, **options: str) -> DataFrame:
    return spark.read.format("headgate").option("nameserver", broker.address).options(**options).load("orders")


def run(spark: SparkSession, broker: FakeBroker, folder: Path, **options: str) -> list[int]:
    """One AvailableNow run into Parquet; rows of each micro-batch."""
    source = spark.readStream.format("headgate").option("nameserver", broker.address).options(**options).load("orders")
    writer = source.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "rows"))
    query.awaitTermination()
    return [int(progress["numInputRows"]) for progress in query.recentProgress]


def bodies(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(int(row.body) for row in spark.read.parquet(str(folder / "rows")).select("body").collect())


def test_all_columns_arrive_typed(spark: SparkSession, broker: FakeBroker) -> None:
    fill(broker, 1)
    [row] = read(spark, broker, columns="all").collect()
    assert row.asDict() == {
        "topic": "orders", "brokerName": "broker-a", "queueId": 0, "queueOffset": 0,
        "bornTimestamp": datetime.fromtimestamp(1_699_999_999.995, UTC).astimezone().replace(tzinfo=None),
        "storeTimestamp": datetime.fromtimestamp(1_700_000_000, UTC).astimezone().replace(tzinfo=None),
        "keys": "k0", "tags": "t0", "messageId": "ID0", "messageGroup": None, "bornHost": "127.0.0.1:0",
        "properties": {"TAGS": "t0", "KEYS": "k0", "UNIQ_KEY": "ID0", "colour": "red"},
        "body": b"0", "reconsumeTimes": 0, "bodyCrc": zlib.crc32(b"0") & 0x7FFFFFFF,
    }  # fmt: skip


def test_a_batch_counts_and_groups(spark: SparkSession, broker: FakeBroker) -> None:
    fill(broker, 1000)
    found = read(spark, broker, minPartitions="5")
    assert found.rdd.getNumPartitions() >= 5
    assert {row.tags: row["count"] for row in found.groupBy("tags").count().collect()} == {"t0": 500, "t1": 500}


def test_a_schema_of_the_query_is_a_projection(spark: SparkSession, broker: FakeBroker) -> None:
    fill(broker, 4)
    source = spark.read.format("headgate").option("nameserver", broker.address)
    rows = source.schema("body binary, queueOffset bigint").load("orders").orderBy("queueOffset", "body").collect()
    assert [tuple(row) for row in rows] == [(b"0", 0), (b"1", 0), (b"2", 0), (b"3", 1)]
    with pytest.raises(AnalysisException, match="Column 'body' is binary, the schema of the query says string"):
        source.schema("body string").load("orders").count()


def test_an_unknown_topic_and_a_misspelt_option_are_named(spark: SparkSession, broker: FakeBroker, tmp_path: Path) -> None:
    fill(broker, 1)
    with pytest.raises(AnalysisException, match=r"Topic 'order' does not exist at nameserver .* Did you mean orders\?"):
        spark.read.format("headgate").option("nameserver", broker.address).load("order").count()
    with pytest.raises(AnalysisException, match="Did you mean 'startingOffsets'"):
        read(spark, broker, startingOfset="earliest").count()


def test_available_now_reads_in_bounded_batches_and_goes_on_later(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    fill(broker, 1000)
    assert run(spark, broker, tmp_path, maxOffsetsPerTrigger="300") == [300, 300, 300, 100]
    for at in range(1000, 1010):
        broker.put("orders", b"%d" % at)
    assert sum(run(spark, broker, tmp_path, maxOffsetsPerTrigger="300")) == 10
    assert bodies(spark, tmp_path) == list(range(1010))


def test_a_crash_before_the_first_commit_loses_nothing_of_a_moving_start(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    fill(broker, 30)
    run(spark, broker, tmp_path, startingOffsets="latest")
    for at in range(30, 35):
        broker.put("orders", b"%d" % at)
    run(spark, broker, tmp_path, startingOffsets="latest")
    # The checkpoint after a crash in the middle of the first batch: the batch is planned, not committed.
    first = tmp_path / "checkpoint" / "offsets" / "0"
    again = tmp_path / "again"
    (again / "checkpoint" / "offsets").mkdir(parents=True)
    text = first.read_text().replace('{"0": 10, "1": 10, "2": 10}}, "from"', '{"0": 15, "1": 10, "2": 10}}, "from"')
    (again / "checkpoint" / "offsets" / "0").write_text(text)
    (again / "checkpoint" / "metadata").write_text((tmp_path / "checkpoint" / "metadata").read_text())
    for at in range(35, 40):
        broker.put("orders", b"%d" % at)
    run(spark, broker, again, startingOffsets="latest")
    assert bodies(spark, again) == list(range(30, 40))
