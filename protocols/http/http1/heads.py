"""Whole heads in their plain form, read line by line.

The requests of a client have nearly the same lines, so lines are kept with their meaning, and only new ones are judged. A
head is plain when llhttp's strict grammar leaves no choice: HTTP/1.1, lines that end with CRLF, one space behind the colon,
printable ASCII, no transfer coding, no upgrade, and a connection that stays open. All others are left to llhttp, which accepts
or refuses them; a test compares both.
"""

from __future__ import annotations

import re
from typing import Any, Final, final

from protocols.adapter import Peer
from protocols.http.request import Request

HEAD_BYTES_MAX: Final = 4 * 1024
"""A longer head is left to llhttp, which counts its parts."""
LINES_MAX: Final = 1_024
"""Lines that are kept of each kind; with more, all of the kind are dropped."""
LINE_BYTES_MAX: Final = 256
"""A longer line is not kept."""

_START = re.compile(rb"(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH) (/[-0-9A-Za-z._~!$&'()*+,;=:@%/?]*) HTTP/1\.1")
_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[!-~](?:[ -~]*[!-~])?")
_STEADY: Final = frozenset(
    (
        b"host", b"user-agent", b"accept", b"accept-encoding", b"accept-language", b"cache-control", b"connection", b"origin",
        b"content-type", b"content-length", b"content-encoding", b"prefer", b"ce-specversion", b"ce-source", b"ce-type",
        b"ce-dataschema",
    )
)  # fmt: skip
"""Fields with the same value in many requests. Lines of others are not kept: each would take the place of a useful one."""
_FRAMING: Final = frozenset((b"connection", b"content-length", b"proxy-connection", b"transfer-encoding", b"upgrade"))
"""Fields that decide where the request ends and what follows it."""


@final
class Heads:
    """Reads plain heads, for all connections of an adapter.

    _starts   request line -> method and target
    _lines    line of a field -> its name in lower case, and its value
    """

    def __init__(self) -> None:
        self._starts: dict[bytes, tuple[bytes, bytes]] = {}
        self._lines: dict[bytes, Any] = {}
        self._names: dict[bytes, bytes] = {}

    def read(self, head: bytes, peer: Peer) -> Request | None:
        """The request of a head, which comes without the empty line that ends it. None: the head is not plain."""
        lines = head.split(b"\r\n")
        start = self._starts.get(lines[0])
        if start is None:
            start = self._start(lines[0])
            if start is None:
                return None
        known = self._lines  # of Any: a compiled `tuple[bytes, bytes]` would be taken apart and made again
        fields: list[Any] = []
        for at in range(1, len(lines)):
            line = lines[at]
            field: Any = known.get(line)
            if field is None:
                field = self._field(line)
                if field is None:
                    return None
            fields.append(field)
        method, target = start
        request = Request(method, target, fields, peer)
        # Which of two fields counts is for llhttp to say, and for what comes behind it.
        return None if request.repeated else request

    def _start(self, line: bytes) -> tuple[bytes, bytes] | None:
        found = _START.fullmatch(line)
        if found is None:
            return None
        method, target = found.groups()
        start = (method, target)
        if len(line) <= LINE_BYTES_MAX:
            if len(self._starts) >= LINES_MAX:
                self._starts.clear()
            self._starts[line] = start
        return start

    def _field(self, line: bytes) -> tuple[bytes, bytes] | None:
        sent, colon, value = line.partition(b": ")
        name = self._names.get(sent)
        if name is None:
            name = self._name(sent)
            if name is None:
                return None
        if not colon or _VALUE.fullmatch(value) is None or (name in _FRAMING and not _frames_plainly(name, value)):
            return None
        field = (name, value)
        if name in _STEADY and len(line) <= LINE_BYTES_MAX:
            if len(self._lines) >= LINES_MAX:
                self._lines.clear()
            self._lines[line] = field
        return field

    def _name(self, sent: bytes) -> bytes | None:
        if len(sent) > LINE_BYTES_MAX or _NAME.fullmatch(sent) is None:
            return None
        name = sent.lower()
        if len(self._names) >= LINES_MAX:
            self._names.clear()
        self._names[sent] = name
        return name


def _frames_plainly(name: bytes, value: bytes) -> bool:
    """True when the content has `value` bytes, or the connection stays open as it does anyway."""
    if name == b"content-length":
        return len(value) <= 12 and value.isdigit()
    return name == b"connection" and value.lower() == b"keep-alive"
