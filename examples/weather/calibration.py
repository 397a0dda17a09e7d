"""Calibrations: what to add to each station's thermometer, sent with the official RocketMQ SDK over gRPC.

The SDK has its own protobuf definitions, so it runs in a process of its own: `python -m examples.weather.calibration`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal

from examples.weather.reading import SAN_FRANCISCO, SEATTLE

CALIBRATIONS = [
    (SEATTLE, 1, Decimal("1.5")),
    (SAN_FRANCISCO, 1, Decimal("0.2")),
    (SEATTLE, 2, Decimal("-0.3")),
]
"""Station, version, degrees: the highest version of a station applies."""


def calibrate(host: str, port: int) -> None:
    """Send the calibrations, in a process of its own."""
    subprocess.run([sys.executable, "-m", "examples.weather.calibration", f"{host}:{port}"], check=True, timeout=120)


def main(endpoint: str) -> None:
    """Send the calibrations to the gRPC endpoint."""
    from rocketmq import ClientConfiguration, Credentials, Message, Producer

    producer = Producer(ClientConfiguration(endpoint, Credentials()), ("calibrations",))
    producer.startup()
    try:
        for station, version, degrees in CALIBRATIONS:
            message = Message()
            message.topic = "calibrations"
            message.keys = station
            message.body = json.dumps({"station": station, "version": version, "degrees": float(degrees)}).encode()
            producer.send(message)
    finally:
        producer.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
