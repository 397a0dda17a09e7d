"""What the stations measured: one year of hourly temperatures in two cities, from the package vega_datasets."""

from __future__ import annotations

import csv
import json
from datetime import datetime
from decimal import Decimal
from importlib.resources import files
from typing import NamedTuple

SEATTLE = "seattle"
SAN_FRANCISCO = "san-francisco"
_FILES = {SEATTLE: "seattle-temps.csv", SAN_FRANCISCO: "sf-temps.csv"}


class Reading(NamedTuple):
    """One temperature, in degrees Fahrenheit with one decimal."""

    station: str
    time: datetime
    fahrenheit: Decimal

    def body(self) -> bytes:
        """The payload that a station sends."""
        return json.dumps({"time": self.time.isoformat(), "fahrenheit": float(self.fahrenheit)}).encode()

    def path(self) -> str:
        """The path to which a station sends it."""
        return f"weather/{self.station}/temperature"


def readings(station: str, count: int) -> list[Reading]:
    """`count` readings of a station, spread evenly over its year; all of them when there are fewer."""
    text = files("vega_datasets").joinpath("_data", _FILES[station]).read_text(encoding="ascii")
    rows = [
        Reading(station, datetime.fromisoformat(row["date"].replace("/", "-")), Decimal(row["temp"]))
        for row in csv.DictReader(text.splitlines())
    ]
    step = max(len(rows) / count, 1.0)
    return [rows[int(at * step)] for at in range(min(count, len(rows)))]
