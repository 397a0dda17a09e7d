"""A Spark driver process for tests: topic -> Parquet, without end; or once to the topic's end, then the rows as JSON lines.

python -m tests.interop.spark.query NAMESERVER TOPIC FOLDER [OUTPUT]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.gateway.connectors.spark.session import build


def main(nameserver: str, topic: str, folder: Path, output: Path | None) -> None:
    """Without `output` the query runs until the process is killed."""
    spark = build(folder / "spark")
    source = spark.readStream.format("headgate").option("nameserver", nameserver)
    if output is None:
        source = source.option("maxOffsetsPerTrigger", 400)
    writer = source.load(topic).select("queueId", "queueOffset", "body").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if output is None:
        writer.trigger(processingTime="100 milliseconds").start(str(folder / "rows")).awaitTermination()
        return
    writer.trigger(availableNow=True).start(str(folder / "rows")).awaitTermination()
    rows = spark.read.parquet(str(folder / "rows")).collect()
    output.write_text(json.dumps([[row.queueId, row.queueOffset, row.body.decode()] for row in rows]))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
