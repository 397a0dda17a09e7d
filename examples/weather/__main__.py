"""Run all parts: `python -m examples.weather`. Exits with 1 when the table differs from the input.

With --host and --port it uses a running node, for example: --port nameserver=9876 --port mqtt=1883 …; the
topics weather, alarms and calibrations must then be new.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from examples.weather import alarm, calibration, check, coap_station, mqtt_station
from examples.weather.node import node
from examples.weather.reading import SAN_FRANCISCO, SEATTLE, readings


def main() -> int:
    """Start a node unless one is named, publish the readings, read them with Spark, and compare."""
    parser = argparse.ArgumentParser(prog="python -m examples.weather", description=__doc__)
    parser.add_argument("--readings", type=int, default=2000, help="in all, of both stations (default 2000; there are 17517)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", action="append", default=[], metavar="NAME=N", help="of a node that runs already")
    parser.add_argument("--folder", type=Path, help="keep Parquet and checkpoints here instead of in a temporary folder")
    given = parser.parse_args()
    ports = {name: int(number) for name, _, number in (one.partition("=") for one in given.port)}
    with tempfile.TemporaryDirectory(prefix="weather-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with nullcontext(ports) if ports else node(Path(temporary)) as running:
            return run(given.host, running, folder, given.readings)


def run(host: str, ports: Mapping[str, int], folder: Path, count: int) -> int:
    """The exit status: 0 when the table is right."""
    seattle = readings(SEATTLE, count - count // 2)
    bay = readings(SAN_FRANCISCO, count // 2)
    everything = [*seattle, *bay]
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(_timed, "MQTT readings of Seattle", lambda: mqtt_station.publish(host, ports["mqtt"], seattle)),
            pool.submit(_timed, "CoAP readings of San Francisco", lambda: coap_station.post(host, ports["coap"], bay)),
            pool.submit(_timed, "CloudEvents of both", lambda: alarm.raise_alarms(host, ports["http"], everything)),
            pool.submit(_timed, "calibrations by the RocketMQ SDK", lambda: calibration.calibrate(host, ports["grpc"])),
        ]
        for job in jobs:
            job.result()

    from examples.weather import table

    spark = table.session()
    nameserver = f"{host}:{ports['nameserver']}"
    _timed("Spark: temperatures", lambda: table.ingest(table.temperatures(spark, nameserver), folder, "temperatures"))
    _timed("Spark: alarms", lambda: table.ingest(table.alarms(spark, nameserver), folder, "alarms"))
    result = table.table(spark, folder, nameserver).cache()
    result.show(100, truncate=False)
    wrong = check.differences(everything, (row.asDict() for row in result.collect()))
    spark.stop()
    for line in wrong:
        print(f"WRONG {line}")
    print(
        f"{len(everything)} readings in, {'the table is NOT right' if wrong else 'every count and sum in the table is right'}"
    )
    return 1 if wrong else 0


def _timed(what: str, job: Callable[[], object]) -> None:
    began = time.monotonic()
    job()
    print(f"{what}: {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
