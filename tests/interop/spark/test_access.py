"""Spark with a node that controls access and takes TLS only: what it reads, what it is told, and that it leaves no secret.

One Spark session for all, with its event log; what its Java machine and its Python workers write goes to a file.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from domain.address import TEMPLATE_TOPIC
from tests.gateway.connectors.spark.session import SLOW_WORKER, session
from tests.interop import certificates
from tests.interop.secured import ROOT_PASSWORD, Secured
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.slow]
OLD_CHECKPOINT = Path(__file__).resolve().parents[2] / "gateway" / "connectors" / "spark" / "checkpoint_v1"
PATIENCE_S = 300.0
"""For what takes milliseconds on a machine that is not busy."""
LONG_MS = "10000000"
"""Longer than a test may take: what ends before was not tried again."""
Found = TypeVar("Found")
PASSWORDS = ("wonder:land-7f3a", "second-9c1e", "third-52d0")
GUESSED = "guessed-11aa"
VARIABLE = "KEY_OF_THE_READER"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Secured(tmp_path_factory.mktemp("secured")) as running:
        with running.client(running.root) as root:
            until(lambda: TEMPLATE_TOPIC in root.topics(), PATIENCE_S)
            for number in range(45):
                root.send("orders", b"m%d" % number, queue_id=number % 3)
            for topic in ("closed", "written"):
                root.send(topic, b"x", queue_id=0)
        running.user("reader", PASSWORDS[0])
        for resource, action in (("Topic:orders", "Sub"), ("Group:TOOLS_CONSUMER", "Sub"), ("Topic:written", "Pub")):
            running.allow("reader", resource, action)
        running.place("reader", PASSWORDS[0])
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that Spark writes: its log, its event log, its own files, checkpoints and rows."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(folder: Path) -> Iterator[SparkSession]:
    (folder / "events").mkdir()
    settings = (
        "spark.eventLog.enabled=true",
        f"spark.eventLog.dir=file://{folder / 'events'}",
        "spark.eventLog.compress=false",
    )
    end_java()  # that of other tests knows neither these settings nor the variable
    before = dict(os.environ)
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(f"--conf {setting}" for setting in settings) + " pyspark-shell"
    os.environ[VARIABLE] = f"reader:{PASSWORDS[0]}"
    try:
        with written_to(folder / "log"):
            opened = session(folder)
            spark = opened.__enter__()
        spark.sparkContext.setLogLevel("INFO")
        try:
            yield spark
        finally:
            opened.__exit__(None, None, None)
            end_java()
    finally:
        os.environ.clear()
        os.environ.update(before)


def end_java() -> None:
    """End the Java machine that this process has begun, if any: the next session begins one with the environment of then."""
    java: Any = SparkContext._gateway
    if java is not None:
        java.shutdown()
        java.proc.stdin.close()
        java.proc.wait(60)
        SparkContext._gateway = None
        SparkContext._jvm = None


@contextmanager
def written_to(file: Path) -> Iterator[None]:
    """Processes that begin meanwhile write their output to `file`."""
    kept = [os.dup(number) for number in (1, 2)]
    with file.open("ab") as output:
        for number in (1, 2):
            os.dup2(output.fileno(), number)
        try:
            yield
        finally:
            for number, one in zip((1, 2), kept, strict=True):
                os.dup2(one, number)
                os.close(one)


def key_of(secured: Secured, name: str) -> str:
    return str(Path(secured.root.file).with_name(name))


def options(secured: Secured, **more: str) -> dict[str, str]:
    place = {} if "accessKeyEnv" in more else {"accessKeyFile": key_of(secured, "reader")}
    usual = {
        "nameserver": secured.nameserver,
        "tls": "true",
        "tlsCaFile": str(secured.ca),
        "columns": "queueId,queueOffset,body",
    }
    return {**usual, "retryMs": LONG_MS, **place, **more}


def batch(spark: SparkSession, secured: Secured, topic: str = "orders", **more: str) -> DataFrame:
    return spark.read.format("headgate").options(**options(secured, **more)).load(topic)


def bodies(frame: DataFrame) -> list[int]:
    return sorted(int(row.body.decode().removeprefix("m")) for row in patiently(frame.collect))


def patiently(act: Callable[[], Found]) -> Found:
    """The result of `act`, begun again when Spark gave its Python process up: it waits 10 s, which a busy machine exceeds."""
    while True:
        try:
            return act()
        except PySparkException as error:
            if SLOW_WORKER not in str(error):
                raise


def test_a_batch_reads_with_a_file_and_with_a_variable(spark: SparkSession, secured: Secured, folder: Path) -> None:
    frame = batch(spark, secured)
    assert bodies(frame) == list(range(45))
    assert bodies(batch(spark, secured, accessKeyEnv=VARIABLE)) == list(range(45))
    with (folder / "plans").open("w") as plans, redirect_stdout(StringIO()) as printed:
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            frame.explain(mode=mode)
        plans.write(printed.getvalue())
    assert "headgate" in (folder / "plans").read_text()


def test_a_checkpoint_of_version_1_goes_on(spark: SparkSession, secured: Secured, folder: Path) -> None:
    shutil.copytree(OLD_CHECKPOINT, folder / "old")
    frame = spark.readStream.format("headgate").options(**options(secured)).load("orders")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "old"))
    patiently(lambda: writer.trigger(availableNow=True).start(str(folder / "old-rows")).awaitTermination())
    assert bodies(spark.read.parquet(str(folder / "old-rows" / "*.parquet"))) == list(range(36, 45))


def test_what_is_refused_is_an_error_at_once(spark: SparkSession, secured: Secured, folder: Path) -> None:
    other, _ = certificates.write(folder / "other", 9)
    guessed = key_of(secured, "guessed")
    Path(guessed).write_text(f"reader:{GUESSED}")
    said = []
    for topic, more, says in (
        ("orders", {"tlsCaFile": str(other)}, "TlsError: 127.0.0.1:"),
        ("orders", {"tlsCaFile": str(other)}, "certificate is signed by no authority of"),
        ("orders", {"accessKeyFile": guessed}, "KeyRefusedError: nameserver 127.0.0.1:"),
        (
            "orders",
            {"accessKeyEnv": "NO_SUCH_KEY"},
            "KeyPlaceError: There is no access key: the environment variable NO_SUCH_KEY",
        ),
        ("closed", {}, "no permission for Pub on Topic:closed"),
        ("written", {}, "reading written queue 0 at broker-a: code 16 User:reader has no permission for Sub on Topic:written"),
        ("orders", {"accessKey": f"reader:{GUESSED}"}, "OptionError: Option 'accesskey' is refused: a secret is not given"),
    ):
        with pytest.raises(PySparkException) as caught:
            patiently(batch(spark, secured, topic, **more).collect)
        assert says in str(caught.value)
        said.append(str(caught.value))
    assert not [text for text in said for secret in (*PASSWORDS, GUESSED) if secret in text]


def test_a_key_is_changed_while_a_stream_runs(spark: SparkSession, secured: Secured, folder: Path) -> None:
    """First in the file, then at the node; messages after each change are read by the same query."""
    frame = spark.readStream.format("headgate").options(**options(secured)).load("orders")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    queries = [patiently(lambda: writer.trigger(processingTime="50 milliseconds").start(str(folder / "rows")))]

    def delivered() -> int:
        """Rows of all batches that are committed. The query is begun again when Spark gave its Python process up."""
        if not queries[-1].isActive:
            assert SLOW_WORKER in str(queries[-1].exception()), queries[-1].exception()
            queries.append(writer.start(str(folder / "rows")))
        return committed_rows(folder / "checkpoint")

    try:
        until(lambda: delivered() == 45, PATIENCE_S)
        for at, password in enumerate(PASSWORDS[1:]):
            secured.place("reader", password)
            secured.password("reader", password)
            with secured.client(secured.root) as root:
                for number in range(45 + 10 * at, 55 + 10 * at):
                    root.send("orders", b"m%d" % number, queue_id=number % 3)
            until(lambda wanted=55 + 10 * at: delivered() == wanted, PATIENCE_S)  # type: ignore[misc]
    finally:
        queries[-1].stop()
    assert bodies(spark.read.parquet(str(folder / "rows"))) == list(range(65))


def committed_rows(checkpoint: Path) -> int:
    """The sum of the positions in the last committed batch of a checkpoint; 0: there is none."""
    numbers = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdigit()]
    if not numbers:
        return 0
    position = json.loads((checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[-1])
    return sum(position["q"]["broker-a/orders"].values())


def test_no_secret_is_left_anywhere(spark: SparkSession, secured: Secured, folder: Path) -> None:
    """After all scenes: logs, event log, plans, checkpoints, rows, and Spark's own files."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    for name in ("log", "events", "plans", "checkpoint", "old", "rows"):
        assert [file for file in files if (folder / name) in (file, *file.parents) and file.stat().st_size], name
    assert "numInputRows" in (folder / "log").read_text(errors="replace")
    texts = {str(file): file.read_bytes() for file in files} | {"the node's log": secured.node.text().encode()}
    assert [data for data in texts.values() if b"broker-a/orders" in data]
    secrets = [secret.encode() for secret in (*PASSWORDS, GUESSED, ROOT_PASSWORD)]
    assert not [(name, secret) for name, data in texts.items() for secret in secrets if secret in data]
