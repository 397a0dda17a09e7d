"""The status of every ErrorCode."""

from __future__ import annotations

from typing import Any

import pytest

from domain.errors import ConfigError, ErrorCode, Failure
from protocols.http.problem import of_failure
from protocols.http.response import DateLine, imf_date
from protocols.http.status import PHRASE, RETRY_AFTER_S, STATUS
from tests.protocols.http.stage import adapter, factory


@pytest.mark.parametrize("code", ErrorCode)
def test_every_outcome_has_a_row(code: ErrorCode) -> None:
    response = of_failure(Failure(code))
    assert response.status == STATUS[code]
    assert response.status in PHRASE
    assert ((b"retry-after", b"1") in response.fields) is (response.status in RETRY_AFTER_S)
    assert ((b"www-authenticate", b"Bearer") in response.fields) is (response.status == 401)


def test_only_what_may_be_tried_again_says_when() -> None:
    for code, status in STATUS.items():
        if status in RETRY_AFTER_S:
            assert Failure(code).retry.value != "never"


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (0, b"Thu, 01 Jan 1970 00:00:00 GMT"),
        (784_111_777, b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (951_782_400, b"Tue, 29 Feb 2000 00:00:00 GMT"),
        (4_107_542_400, b"Mon, 01 Mar 2100 00:00:00 GMT"),
    ],
)
def test_dates(second: int, text: bytes) -> None:
    """RFC 9110, 5.6.7."""
    assert imf_date(second) == text


def test_the_date_is_encoded_once_a_second() -> None:
    """The clock is read when its second is over by the monotonic clock, at the latest."""
    read: list[int] = []

    def wall_ms() -> int:
        read.append(784_111_777_900 + 100 * len(read))
        return read[-1]

    line = DateLine(wall_ms)
    assert line.at(5) == b"Sun, 06 Nov 1994 08:49:37 GMT"
    assert line.at(5 + 99_999_999) == line.at(5)
    assert read == [784_111_777_900]
    assert line.field(5 + 100_000_000) == (b"date", b"Sun, 06 Nov 1994 08:49:38 GMT")
    assert line.at(5 + 100_000_000 + 999_999_999) == line.at(5 + 100_000_000)
    assert len(read) == 2


@pytest.mark.parametrize(
    "options", [{"webhook_orgins": []}, {"webhook_origins": "x"}, {"webhook_rate": -1}, {"webhook_rate": True}]
)
def test_bad_settings_are_refused(options: dict[str, Any]) -> None:
    for make in (adapter, factory):
        with pytest.raises(ConfigError):
            make(**options)
