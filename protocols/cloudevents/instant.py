"""Instants: RFC 3339 text and epoch milliseconds."""

from __future__ import annotations

import datetime
import re
from typing import Final

INSTANT_MS_MAX: Final = 253_402_300_799_999

_RFC3339 = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d)[Tt]([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:\.(\d+))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))"
)
_EPOCH_DAY: Final = 719_163
DAYS_MAX: Final = 64
"""Judged days that are remembered: most events are of today."""
_days: Final[dict[bytes, bool]] = {}
"""A day as text -> True: the calendar has it."""
SECONDS_MAX: Final = 64
"""Seconds whose text is remembered: most instants that go out are of the last ones."""
_seconds: Final[dict[int, str]] = {}
"""Epoch seconds -> date-time up to the point before the milliseconds."""


def rfc3339_ms(text: bytes) -> int:
    """RFC 3339 date-time -> epoch milliseconds, truncated to the millisecond; -1 when it is not one, or before 1970.

    A leap second counts as the first second of the next minute.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        return -1
    year, month, day, hour, minute, second, fraction, sign, off_hour, off_minute = found.groups()
    try:
        days = datetime.date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return -1
    minutes = int(hour) * 60 + int(minute)
    if sign is not None:
        offset = int(off_hour) * 60 + int(off_minute)
        minutes += offset if sign == b"-" else -offset
    ms = (days * 1440 + minutes) * 60_000 + int(second) * 1000
    if fraction is not None:
        ms += int((fraction + b"00")[:3])
    return ms if ms >= 0 else -1


def is_rfc3339(text: bytes) -> bool:
    """True for an RFC 3339 date-time of any year."""
    if _RFC3339.fullmatch(text) is None:
        return False
    day = text[:10]
    known = _days.get(day)
    if known is None:
        known = _is_day(day)
        if len(_days) >= DAYS_MAX:
            _days.clear()
        _days[day] = known
    return known


def _is_day(text: bytes) -> bool:
    try:
        datetime.date(int(text[:4]), int(text[5:7]), int(text[8:]))
    except ValueError:
        return False
    return True


def rfc3339(ms: int) -> str:
    """Epoch milliseconds, from 0 to INSTANT_MS_MAX -> RFC 3339 date-time in UTC, with milliseconds."""
    second = ms // 1000
    text = _seconds.get(second)
    if text is None:
        if len(_seconds) >= SECONDS_MAX:
            _seconds.clear()
        text = _seconds[second] = f"{datetime.datetime.fromtimestamp(second, datetime.UTC):%Y-%m-%dT%H:%M:%S}."
    return text + str(ms - 1000 * second).zfill(3) + "Z"


def instant_ms(text: bytes) -> int:
    """RFC 3339 date-time or decimal epoch milliseconds -> epoch milliseconds; -1 when it is neither."""
    if text.isdigit():
        return int(text) if len(text) <= 15 and int(text) <= INSTANT_MS_MAX else -1
    return rfc3339_ms(text)
