"""Streaming queries on a real node: what is there is read once, what is not there is said.

One Spark session for all; the node is a process, which loses topics, messages and itself between and during the runs.
"""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from domain.address import TEMPLATE_TOPIC
from gateway.client.client import Client
from tests.gateway.connectors.spark.session import SLOW_WORKER, session
from tests.interop.http_api import request
from tests.interop.node import Node
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.slow]
OLD_CHECKPOINT = Path(__file__).resolve().parents[2] / "gateway" / "connectors" / "spark" / "checkpoint_v1"
PATIENCE_S = 120.0
"""For what takes milliseconds on a machine that is not busy."""

PATIENT_MS = f"{PATIENCE_S * 1_000:.0f}"
NO_ANSWER = "no answer within"
REASONS = {
    "absence": None, "retention-held": None, "retention": "offsets 5 to 8 are gone",
    "deletion": "is not at nameserver .* any more", "re-creation": "of a topic that was deleted",
}  # fmt: skip
"""What happens before a batch is replayed -> the reason of its failure; None: the batch is replayed."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark")) as spark:
        yield spark


@pytest.fixture(autouse=True)
def queries_end_with_their_scene(spark: SparkSession) -> Iterator[None]:
    """A scene that fails leaves no query behind that takes the time of the next ones."""
    yield
    for query in spark.streams.active:
        query.stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node"), environment={"HEADGATE_STORE_RETENTION_CHECK_MS": "100"}) as node:
        with client(node) as one:
            until(lambda: TEMPLATE_TOPIC in one.topics(), PATIENCE_S)
        yield node


def client(node: Node) -> Client:
    return Client(f"127.0.0.1:{node.port('nameserver')}", retry_s=20)


def topic(node: Node, method: str, name: str, **settings: int) -> None:
    """Create, change or delete a topic over HTTP."""
    answer = request(node, method, f"/v1/topics/{name}", json.dumps(settings).encode() if settings else None)
    assert answer[0] < 300, answer


def send(node: Node, name: str, first: int, after: int, queues: int = 2) -> None:
    """Send numbers, and wait until they can be read: a message whose sync takes too long is answered before that."""
    with client(node) as one:
        sent = [one.send(name, b"%d" % number, queue_id=number % queues) for number in range(first, after)]
        newest = {each.queue: each.offset for each in sent}
        until(lambda: all(edges.after > newest[queue] for queue, edges in one.bounds(list(newest)).items()), PATIENCE_S)


class Query:
    """One streaming query into Parquet: its checkpoint, and a folder of rows."""

    def __init__(
        self, spark: SparkSession, node: Node, folder: Path, names: str, columns: str = "queueId,queueOffset,body"
    ) -> None:
        self._spark = spark
        self._node = node
        self._names = names
        self._columns = columns
        self.checkpoint = folder / "checkpoint"
        self.rows = folder / "rows"

    def start(self, sink: Callable[[DataFrame, int], None] | None = None, **options: Any) -> StreamingQuery:
        """Begin an AvailableNow run into the folder of rows, or into `sink`."""
        source = self._spark.readStream.format("headgate").option("nameserver", f"127.0.0.1:{self._node.port('nameserver')}")
        frame = source.options(**{"columns": self._columns, "retryMs": PATIENT_MS, **options}).load(self._names)
        writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        if sink is not None:
            return writer.foreachBatch(sink).start()
        return writer.format("parquet").start(str(self.rows))

    def run(self, **options: Any) -> list[int]:
        """One AvailableNow run; the rows of each micro-batch that was planned.

        It is begun again when Spark gave its Python process up: it waits 10 s, which a busy machine exceeds, and reads nothing.
        """
        while True:
            try:
                return self.finish(self.start(**options))
            except (StreamingQueryException, AnalysisException) as error:
                if SLOW_WORKER not in str(error):
                    raise

    def fails(self, reason: str, **options: Any) -> None:
        """Check that a run fails with `reason`. What is not there is asked for during a second only.

        A run is begun again when a busy machine did not answer within that time.
        """
        while True:
            with pytest.raises((StreamingQueryException, AnalysisException)) as failure:
                self.run(**{"retryMs": "1000", **options})
            if re.search(reason, str(failure.value)):
                return
            assert NO_ANSWER in str(failure.value)

    def finish(self, query: StreamingQuery) -> list[int]:
        """Wait for the end of a run; the rows of each micro-batch that was planned."""
        query.awaitTermination()
        return [int(one["numInputRows"]) for one in query.recentProgress if one["durationMs"].get("addBatch") is not None]

    def found(self) -> list[tuple[int, int, bytes]]:
        """(queue, offset, body) of all rows, sorted."""
        rows = self._spark.read.parquet(str(self.rows / "*.parquet")).collect()
        return sorted((row.queueId, row.queueOffset, bytes(row.body)) for row in rows)

    def uncommit(self) -> None:
        """Make the checkpoint that of a crash before the last batch was committed; rows go to a new folder."""
        last = max(
            (one for one in (self.checkpoint / "commits").iterdir() if one.name.isdigit()), key=lambda one: int(one.name)
        )
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        self.rows = self.rows.with_name(f"{self.rows.name}-again")


def fail(_frame: DataFrame, _number: int) -> None:
    """A sink that takes no batch."""
    raise AssertionError("no batch is taken")


def sent(first: int, after: int, queues: int = 2) -> list[tuple[int, int, bytes]]:
    return sorted((number % queues, number // queues, b"%d" % number) for number in range(first, after))


def test_a_topic_made_anew_is_noticed_and_read_from_its_first_message(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    topic(node, "PUT", "anew", queues=2)
    send(node, "anew", 0, 10)
    query = Query(spark, node, tmp_path, "anew")
    assert query.run() == [10]
    topic(node, "DELETE", "anew")
    query.fails(r"'anew' is not at nameserver .* any more")
    assert query.run(failOnDataLoss="false", retryMs="1000") == []
    topic(node, "PUT", "anew", queues=2)
    send(node, "anew", 100, 140)
    query.fails(r"at offset 5 of a topic that was deleted")
    assert query.run(failOnDataLoss="false", maxOffsetsPerTrigger="16") == [16, 16, 8]
    new = [(queue, offset - 50, body) for queue, offset, body in sent(100, 140)]
    assert query.found() == sorted(sent(0, 10) + new)
    # A crash before the last of these batches was committed: it is replayed to the byte, or refused when its topic is gone.
    query.uncommit()
    assert query.run() == [8]
    assert query.found() == [one for one in new if one[1] >= 16]
    query.uncommit()
    topic(node, "DELETE", "anew")
    topic(node, "PUT", "anew", queues=2)
    send(node, "anew", 0, 100)
    query.fails("of a topic that was deleted")


def test_expired_messages_are_an_error_or_passed_over_without_empty_batches(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    topic(node, "PUT", "brief", queues=1)
    send(node, "brief", 0, 10, 1)
    query = Query(spark, node, tmp_path, "brief")
    assert query.run(holdMs="0") == [10]
    send(node, "brief", 10, 40, 1)
    topic(node, "PUT", "brief", queues=1, retention_ms=1)
    with client(node) as one:
        queues = one.route("brief").queues
        until(lambda: one.bounds(queues)[queues[0]].first == 40, PATIENCE_S)
    topic(node, "PUT", "brief", queues=1, retention_ms=3_600_000)
    send(node, "brief", 40, 50, 1)
    query.fails("offsets 10 to 39 are gone", holdMs="0")
    assert query.run(failOnDataLoss="false", maxOffsetsPerTrigger="4", holdMs="0") == [4, 4, 2]
    assert query.found() == sent(0, 10, 1) + sent(40, 50, 1)
    query.uncommit()
    assert query.run(holdMs="0") == [2]
    assert query.found() == sent(48, 50, 1)


def test_what_a_crashed_query_has_to_read_again_is_kept_from_retention(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    for name in ("held", "free"):
        topic(node, "PUT", name, queues=1)
        send(node, name, 0, 10, 1)
    query = Query(spark, node, tmp_path, "held")
    source = spark.readStream.format("headgate").option("nameserver", f"127.0.0.1:{node.port('nameserver')}").load("held")
    writer = source.select("queueId", "queueOffset", "body").writeStream.option("checkpointLocation", str(query.checkpoint))
    said = SLOW_WORKER
    while SLOW_WORKER in said:
        with pytest.raises(StreamingQueryException) as failure:
            writer.foreachBatch(fail).trigger(availableNow=True).start().awaitTermination()
        said = str(failure.value)
    assert "FOREACH_BATCH_USER_FUNCTION_ERROR" in said
    for name in ("held", "free"):
        topic(node, "PUT", name, queues=1, retention_ms=1)
    with client(node) as one:
        held, free = one.route("held").queues[0], one.route("free").queues[0]
        until(lambda: one.bounds([free])[free].first == 10, PATIENCE_S)
        assert one.bounds([held])[held].first == 0
    assert query.run() == [10]
    assert query.found() == sent(0, 10, 1)


def test_an_absent_node_is_waited_for_or_an_error_and_its_messages_are_the_same_then(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    topic(node, "PUT", "absent", queues=2)
    send(node, "absent", 0, 20)
    query = Query(spark, node, tmp_path, "absent")
    assert query.run() == [20]
    query.uncommit()
    node.kill()
    try:
        query.fails(NO_ANSWER)
        waiting = query.start(missingQueues="wait", retryMs="100")
        assert not waiting.awaitTermination(2)
    finally:
        node.start()
    try:
        rows = query.finish(waiting)
    except StreamingQueryException as error:
        if SLOW_WORKER not in str(error):
            raise
        rows = query.run()
    assert rows == [20]
    assert query.found() == sent(0, 20)


class Batches:
    """A sink that keeps the rows of each micro-batch."""

    def __init__(self) -> None:
        self._tables: dict[int, pa.Table] = {}
        self.crashes = False

    def __call__(self, frame: DataFrame, number: int) -> None:
        self._tables[number] = frame.toArrow()
        if self.crashes:
            raise AssertionError("the crash comes before the commit")

    def bytes_of(self, number: int, name: str) -> bytes:
        """All columns of the rows of one topic in a batch, in the order of queue and offset, as an Arrow stream."""
        rows = self._tables[number].filter(pc.field("topic") == name)
        rows = rows.sort_by([("queueId", "ascending"), ("queueOffset", "ascending")]).combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        return bytes(sink.getvalue())

    def rows(self, number: int) -> int:
        """The number of rows of a batch."""
        return int(self._tables[number].num_rows)


@pytest.mark.parametrize("kind", list(REASONS))
def test_a_batch_that_is_replayed_has_the_same_bytes_or_its_reason(
    spark: SparkSession, node: Node, tmp_path: Path, kind: str
) -> None:
    """A query crashes before the commit. Then one of its topics is deleted, made anew or expires, or their node is away."""
    stays, goes = f"stays-{kind}", f"goes-{kind}"
    hold = {"holdMs": "0"} if kind == "retention" else {}
    query = Query(spark, node, tmp_path, f"{stays},{goes}", "all")
    batches = Batches()
    for name in (stays, goes):
        topic(node, "PUT", name, queues=2)
        send(node, name, 0, 10)
    assert query.run(sink=batches, **hold) == [20]
    for name in (stays, goes):
        send(node, name, 10, 16)
    batches.crashes = True
    query.fails("the crash comes before the commit", sink=batches, retryMs=PATIENT_MS, **hold)
    batches.crashes = False
    assert batches.rows(1) == 12
    first = {name: batches.bytes_of(1, name) for name in (stays, goes)}
    if kind == "absence":
        node.kill()
        node.start()
    if kind.startswith("retention"):
        free = goes if hold else "free"
        topic(node, "PUT", free, queues=2)
        send(node, free, 16, 18)
        for name in (goes, free):
            topic(node, "PUT", name, queues=2, retention_ms=1)
        with client(node) as one:
            expired, kept = one.route(free).queues[0], one.route(goes).queues[0]

            def is_empty() -> bool:
                """True when all of the queue has expired: 9 messages or one, more when a send was repeated."""
                edges = one.bounds([expired])[expired]
                return edges.first == edges.after >= (9 if hold else 1)

            until(is_empty, PATIENCE_S)
            assert hold or one.bounds([kept])[kept].first <= 5
    if kind in ("deletion", "re-creation"):
        topic(node, "DELETE", goes)
    if kind == "re-creation":
        topic(node, "PUT", goes, queues=2)
        send(node, goes, 0, 40)
    reason = REASONS[kind]
    if reason is None:
        assert query.run(sink=batches, **hold) == [12]
        assert {name: batches.bytes_of(1, name) for name in (stays, goes)} == first
        return
    query.fails(reason, sink=batches, **hold)
    query.run(sink=batches, failOnDataLoss="false", retryMs="1000", **hold)
    assert batches.rows(1) == 6
    assert batches.bytes_of(1, stays) == first[stays]


def test_a_checkpoint_of_version_1_goes_on(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    topic(node, "PUT", "orders", queues=8)
    with client(node) as one:
        for number in range(45):
            one.send("orders", b"m%d" % number, queue_id=number % 3)
    for commits in (4, 3):
        query = Query(spark, node, tmp_path / str(commits), "orders")
        shutil.copytree(OLD_CHECKPOINT, query.checkpoint)
        if commits == 3:
            (query.checkpoint / "commits" / "3").unlink()
        assert query.run() == ([6, 9] if commits == 3 else [9])
        first = 30 if commits == 3 else 36
        assert query.found() == sorted((number % 3, number // 3, b"m%d" % number) for number in range(first, 45))


def test_origin_properties_arrive(spark: SparkSession, node: Node) -> None:
    place = f"http://127.0.0.1:{node.port('http')}/v1/topics/origins/messages"
    request = urllib.request.Request(place, b"x", {"Content-Type": "text/plain"}, method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE_S):
        pass
    source = spark.read.format("headgate").option("nameserver", f"127.0.0.1:{node.port('nameserver')}")
    [row] = source.option("columns", "properties").load("origins").collect()
    assert row.properties["HG_PROTOCOL"] == "http"
    assert row.properties["HG_CONTENT_TYPE"] == "text/plain"


def test_a_topic_made_anew_under_a_running_query(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    """Producers go on through deletions: messages of each topic in order, each at most once, those of the last one all."""
    topic(node, "PUT", "moving", queues=1)
    source = spark.readStream.format("headgate").option("nameserver", f"127.0.0.1:{node.port('nameserver')}")
    frame = source.options(failOnDataLoss="false", maxOffsetsPerTrigger="50").load("moving").select("queueOffset", "body")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="20 milliseconds").start(str(tmp_path / "rows"))

    def delivered() -> int:
        assert query.isActive, query.exception()
        return sum(int(one["numInputRows"]) for one in query.recentProgress)

    try:
        for life in range(4):
            if life:
                topic(node, "DELETE", "moving")
                topic(node, "PUT", "moving", queues=1)
            with client(node) as one:
                for number in range(150):
                    one.send("moving", b"%d-%d" % (life, number), queue_id=0)
            if life == 1:
                until(lambda: delivered() >= 150, PATIENCE_S)  # the next topic comes when this one is read, the last when not
        query.processAllAvailable()
    finally:
        query.stop()
    rows = [bytes(row.body) for row in spark.read.parquet(str(tmp_path / "rows")).collect()]
    assert len(rows) == len(set(rows))
    assert {body for body in rows if body.startswith(b"3-")} == {b"3-%d" % number for number in range(150)}
