"""A response, and its encoding in HTTP/1.1 (RFC 9112, section 4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, final

from domain.limits import MILLISECOND_NS
from protocols.http.flow import Flow
from protocols.http.status import PHRASE

Fields = list[tuple[bytes, bytes]]

JSON: Final = (b"content-type", b"application/json")
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_LINES: Final = {code: b"HTTP/1.1 %d %s\r\n" % (code, phrase.encode()) for code, phrase in PHRASE.items()}
_DAYS: Final = (b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed")
_MONTHS: Final = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_UNSAFE: Final = re.compile(rb"[^!-$&-~ ]|^ | $")


@final
class Response:
    """Status, header fields (names in lower case, without Content-Length and Date) and the whole body.

    `refusal` is the name under which a refusal by the adapter is counted; "" for other responses. `flow` makes the
    content of a response in parts; None: the content is `body`.
    """

    __slots__ = ("body", "fields", "flow", "refusal", "status")

    def __init__(self, status: int, fields: Fields, body: bytes = b"") -> None:
        self.refusal = ""
        self.flow: Flow | None = None
        self.status = status
        self.fields = fields
        self.body = body


@final
class DateLine:
    """The Date field, encoded once a second (RFC 9110, 6.6.1): the clock is not read for each response.

    _until_ns   monotonic ns at which the second of `_field` is over
    """

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._until_ns = -1
        self._value = b""
        self._field: Any = (b"date", b"")

    def at(self, now: int) -> bytes:
        """The value at monotonic ns `now`. A step of the wall clock is seen within a second."""
        if now >= self._until_ns:
            ms = self._wall_ms()
            self._until_ns = now + (1000 - ms % 1000) * MILLISECOND_NS
            self._value = imf_date(ms // 1000)
            self._field = (b"date", self._value)
        return self._value

    def field(self, now: int) -> Any:
        """Name and value at monotonic ns `now`: the same tuple for a second."""
        self.at(now)
        return self._field


def imf_date(second: int) -> bytes:
    """Epoch seconds -> `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7)."""
    days, rest = divmod(second, 86_400)
    # Civil date from days: eras of 400 years that begin on 1 March.
    shifted = days + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    return b"%s, %02d %s %04d %02d:%02d:%02d GMT" % (
        _DAYS[days % 7], day, _MONTHS[month - 1], year, rest // 3600, rest // 60 % 60, rest % 60,
    )  # fmt: skip


def field_value(value: bytes) -> bytes:
    """Any bytes as a valid field value: controls, non-ASCII, `%` and outer spaces are percent-encoded."""
    return _UNSAFE.sub(_escape, value)


def _escape(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found.group()[0]


def http1(response: Response, date: bytes, head_only: bool, keep_alive: bool, http10: bool) -> bytes:
    """The bytes of a response. `http10`: the request was HTTP/1.0, so keep-alive needs a Connection field."""
    status = response.status
    body = response.body
    parts = [_LINES[status], b"date: ", date]
    for name, value in response.fields:
        parts.append(b"\r\n")
        parts.append(name)
        parts.append(b": ")
        parts.append(value)
    if status == 101:
        parts.append(b"\r\nconnection: upgrade\r\n\r\n")
        return b"".join(parts)
    if response.flow is not None:
        if not http10:
            parts.append(b"\r\ntransfer-encoding: chunked")
    elif status != 204:
        parts.append(b"\r\ncontent-length: %d" % len(body))
    if not keep_alive:
        parts.append(b"\r\nconnection: close")
    elif http10:
        parts.append(b"\r\nconnection: keep-alive")
    parts.append(b"\r\n\r\n")
    if not head_only:
        parts.append(body)
    return b"".join(parts)
