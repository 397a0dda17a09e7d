"""One small Spark session for a test module: two cores, 512 MB, no web interface, our interpreter for the workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from tests.interop.workshop import archiving

ROOT = Path(__file__).resolve().parents[4]
SLOW_WORKER = "Python worker failed to connect back"
"""Spark gave up a Python process that began too slowly: the machine is busy, and the query is begun again."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "512m",
    # Short runs: code that is compiled once and quickly, and no threads that collect garbage, cost half as much.
    "spark.driver.extraJavaOptions": " ".join(
        ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *archiving(f"pyspark {pyspark.__version__}")]
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


def environment() -> dict[str, str]:
    """The environment variables by which Spark's workers find the project."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
    }


def build(folder: Path) -> SparkSession:
    """A session that writes its own files to `folder`. The environment must be set before."""
    builder = SparkSession.builder.master("local[2]").config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    builder = builder.config("spark.local.dir", str(folder / "local"))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """A session for a test module, stopped after its tests."""
    before = dict(os.environ)
    os.environ.update(environment())
    spark = build(folder)
    try:
        yield spark
    finally:
        spark.stop()
        os.environ.clear()
        os.environ.update(before)
