"""Durations of ISO 8601, as `backoffDelay` and `timeout` have them: `PT1.5S`, `PT2M`, `P1DT12H`."""

from __future__ import annotations

import re
from typing import Final

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d{1,4})D)?(?:T(?:(?P<hours>\d{1,5})H)?(?:(?P<minutes>\d{1,6})M)?(?:(?P<seconds>\d{1,8}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)


def milliseconds(text: str) -> int:
    """A duration in ms, rounded up; -1 for text that is none. Years and months have no fixed length and are none."""
    found = _DURATION.fullmatch(text)
    if found is None or text[-1] in "PT":
        return -1
    parts = found.groupdict()
    whole, _, part = (parts["seconds"] or "0").partition(".")
    nanoseconds = int(part.ljust(9, "0")) if part else 0
    total = int(parts["days"] or 0) * 86_400 + int(parts["hours"] or 0) * 3_600 + int(parts["minutes"] or 0) * 60 + int(whole)
    return total * 1_000 + -(-nanoseconds // 1_000_000)


def text(ms: int) -> str:
    """A duration of whole milliseconds as ISO 8601, in seconds: 1500 -> `PT1.5S`."""
    whole, part = divmod(ms, 1_000)
    return f"PT{whole}.{part:03d}".rstrip("0") + "S" if part else f"PT{whole}S"
