"""Two streaming Spark queries over the topics, aggregated into Parquet, and a table."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

READING = "time timestamp_ntz, fahrenheit decimal(5,1)"
CALIBRATION = "station string, version int, degrees decimal(5,1)"


def session() -> SparkSession:
    """A small Spark session in this process."""
    builder = SparkSession.builder.appName("weather").master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stream(spark: SparkSession, nameserver: str, topic: str) -> DataFrame:
    """The messages of a topic as a stream, at most 5,000 a micro-batch."""
    source = spark.readStream.format("headgate").option("nameserver", nameserver).option("maxOffsetsPerTrigger", 5000)
    return source.load(topic)


def temperatures(spark: SparkSession, nameserver: str) -> DataFrame:
    """Readings by station and month, as a stream. MQTT and CoAP messages are read alike."""
    rows = stream(spark, nameserver, "weather")
    path = f.split(f.col("properties")["originMqttTopic"], "/")
    reading = f.from_json(f.col("body").cast("string"), READING)
    return (
        rows.select(path[1].alias("station"), reading.alias("reading"))
        .groupBy("station", f.date_format("reading.time", "yyyy-MM").alias("month"))
        .agg(
            f.count("*").alias("readings"),
            f.sum("reading.fahrenheit").alias("degrees"),
            f.min("reading.fahrenheit").alias("lowest"),
            f.max("reading.fahrenheit").alias("highest"),
        )
    )


def alarms(spark: SparkSession, nameserver: str) -> DataFrame:
    """Alarms by station and month, as a stream. An event's type is the tag, its attributes are properties."""
    rows = stream(spark, nameserver, "alarms")
    station = f.element_at(f.split(f.col("properties")["CE_source"], "/"), -1)
    return rows.groupBy(station.alias("station"), f.substring(f.col("properties")["CE_time"], 1, 7).alias("month")).agg(
        f.count_if(f.col("tags") == "cold").alias("cold"), f.count_if(f.col("tags") == "heat").alias("heat")
    )


def calibrations(spark: SparkSession, nameserver: str) -> DataFrame:
    """The latest calibration of each station, as a batch."""
    rows = spark.read.format("headgate").option("nameserver", nameserver).option("columns", "body").load("calibrations")
    found = rows.select(f.from_json(f.col("body").cast("string"), CALIBRATION).alias("c"))
    return found.groupBy("c.station").agg(f.max_by("c.degrees", "c.version").alias("calibration"))


def ingest(aggregate: DataFrame, folder: Path, name: str) -> None:
    """Read all messages and store the aggregate as Parquet. A second run continues after the last one."""

    def write(rows: DataFrame, _batch: int) -> None:
        rows.coalesce(1).write.mode("overwrite").parquet(str(folder / name))

    query = aggregate.writeStream.outputMode("complete").foreachBatch(write)
    query.option("checkpointLocation", str(folder / f"{name}-checkpoint")).trigger(availableNow=True).start().awaitTermination()


def table(spark: SparkSession, folder: Path, nameserver: str) -> DataFrame:
    """Temperatures with alarms and calibration, by station and month."""
    parts = spark.read.parquet(str(folder / "temperatures"))
    counts = spark.read.parquet(str(folder / "alarms"))
    mean = f.col("degrees") / f.col("readings") + f.coalesce("calibration", f.lit(0))
    return (
        parts.join(counts, ["station", "month"], "left")
        .join(calibrations(spark, nameserver), "station", "left")
        .na.fill(0, ["cold", "heat"])
        .withColumn("mean", f.round(mean, 2))
        .select("station", "month", "readings", "degrees", "lowest", "highest", "mean", "cold", "heat", "calibration")
        .orderBy("station", "month")
    )
