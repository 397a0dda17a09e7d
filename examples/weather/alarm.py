"""Alarms: cold and heat, as CloudEvents in the binary mode of the HTTP binding, with an ordinary HTTP client."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from decimal import Decimal

from examples.weather.reading import Reading

COLD = Decimal("40.0")
HEAT = Decimal("70.0")


def kind(reading: Reading) -> str:
    """`cold`, `heat`, or ""."""
    if reading.fahrenheit <= COLD:
        return "cold"
    return "heat" if reading.fahrenheit >= HEAT else ""


def raise_alarms(host: str, port: int, readings: Sequence[Reading]) -> int:
    """Post an event for each reading that is cold or heat -> number of events."""
    connection = http.client.HTTPConnection(host, port, timeout=30)
    count = 0
    for reading in readings:
        if not kind(reading):
            continue
        headers = {
            "ce-specversion": "1.0",
            "ce-id": f"{reading.station}-{reading.time:%Y%m%d%H}",
            "ce-source": f"/stations/{reading.station}",
            "ce-type": kind(reading),
            "ce-time": f"{reading.time.isoformat()}Z",
            "content-type": "application/json",
        }
        connection.request("POST", "/ce/alarms", json.dumps({"fahrenheit": float(reading.fahrenheit)}), headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise ConnectionError(f"POST /ce/alarms: {answer.status} {text.decode(errors='replace')}")
        count += 1
    connection.close()
    return count
