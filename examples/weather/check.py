"""The same table from the input, in plain Python, for comparison with Spark's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from examples.weather.alarm import kind
from examples.weather.calibration import CALIBRATIONS
from examples.weather.reading import Reading

Row = tuple[int, Decimal, Decimal, Decimal, int, int, Decimal]
"""readings, degrees, lowest, highest, cold, heat, calibration."""


def expected(readings: Sequence[Reading]) -> dict[tuple[str, str], Row]:
    """(station, month) -> the expected row."""
    months: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for reading in readings:
        months[reading.station, f"{reading.time:%Y-%m}"].append(reading)
    degrees = {station: by for station, _, by in sorted(CALIBRATIONS, key=lambda one: one[1])}
    return {
        (station, month): (
            len(found),
            sum((one.fahrenheit for one in found), Decimal(0)),
            min(one.fahrenheit for one in found),
            max(one.fahrenheit for one in found),
            sum(kind(one) == "cold" for one in found),
            sum(kind(one) == "heat" for one in found),
            degrees[station],
        )
        for (station, month), found in months.items()
    }


def differences(readings: Sequence[Reading], rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Differences between the table and the input, one a line; empty when they are equal."""
    names = ("readings", "degrees", "lowest", "highest", "cold", "heat", "calibration")
    found = {(str(row["station"]), str(row["month"])): tuple(row[name] for name in names) for row in rows}
    want = expected(readings)
    return [
        f"{place}: found {found.get(place)}, expected {want.get(place)}"
        for place in sorted(want.keys() | found.keys())
        if found.get(place) != want.get(place)
    ]
