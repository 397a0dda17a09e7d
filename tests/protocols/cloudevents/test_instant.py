"""RFC 3339, section 5.6."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.cloudevents.instant import instant_ms, is_rfc3339, rfc3339_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (b"1970-01-01T00:00:00Z", 0),
        (b"1985-04-12T23:20:50.52Z", 482196050520),
        (b"1996-12-19T16:39:57-08:00", 851042397000),
        (b"1990-12-31T23:59:60Z", 662688000000),
        (b"2026-11-21t03:00:00z", 1795230000000),
        (b"2026-11-21T03:00:00.9999Z", 1795230000999),
    ],
)
def test_instants_become_epoch_milliseconds(text: bytes, ms: int) -> None:
    assert rfc3339_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"2026-11-21",
        b"2026-11-21T03:00:00",
        b"2026-02-30T00:00:00Z",
        b"2026-11-21T24:00:00Z",
        b"2026-11-21 03:00:00Z",
        b"2026-11-21T03:00Z",
        b"2026-11-21T03:00:00+24:00",
        b"2026-11-21T03:00:00.Z",
        b"20261121T030000Z",
        b"x2026-11-21T03:00:00Z",
        b"0000-01-01T00:00:00Z",
        b"2026-11-21T03:00:00Z\n",
    ],
)
def test_everything_else_is_no_instant(text: bytes) -> None:
    assert rfc3339_ms(text) == -1
    assert not is_rfc3339(text)


def test_epoch_milliseconds_are_taken_too() -> None:
    assert instant_ms(b"1795230000000") == 1795230000000
    assert instant_ms(b"9" * 16) == -1
    assert instant_ms(b"-5") == -1


@settings(max_examples=100)
@given(st.datetimes(min_value=datetime.datetime(1971, 1, 1), max_value=datetime.datetime(2999, 1, 1)), st.integers(-1439, 1439))
def test_agrees_with_the_standard_library(moment: datetime.datetime, offset: int) -> None:
    zoned = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(minutes=offset)))
    expected = (zoned - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1)
    assert rfc3339_ms(zoned.isoformat().encode()) == expected
