"""Syntax of CoAP messages over TCP, TLS and WebSockets (RFC 8323, sections 3.2 and 4.2).

    TCP         length nibble 4 bits | token length 4 bits | longer length 0, 1, 2 or 4 | code 1 | token | options | FF payload
    WebSocket   0 4 bits | token length 4 bits | code 1 | token | options | FF payload

The length counts options, marker and payload. A WebSocket message is one CoAP message and has no length.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol, final

from protocols.coap.message.message import TOKEN_BYTES_MAX

_ONE: Final = 13
_TWO: Final = 269
_FOUR: Final = 65_805
_EXTRA: Final = (0,) * 13 + (1, 2, 4)
"""Length nibble -> bytes of the longer length."""
_BASE: Final = (*range(13), _ONE, _TWO, _FOUR)
"""Length nibble -> smallest length."""


@final
@dataclass(slots=True, eq=False)
class Frame:
    """One message of a stream.

    code    method, response code, or signal code
    token   0 to 8 bytes
    rest    options, marker and payload
    """

    code: int
    token: bytes
    rest: bytes


class Framing(Protocol):
    """Decoding of messages from the bytes of a peer, and their encoding.

    fault        error of the received bytes, "" for none
    unfinished   total bytes of the incomplete message; 0 without one
    """

    fault: str
    unfinished: int

    def feed(self, data: bytes) -> None:
        """Take bytes of the peer."""

    def take(self) -> Frame | None:
        """Next message; None when it is incomplete or `fault` is set."""

    def encode(self, code: int, token: bytes, options: bytes, payload: bytes) -> bytes:
        """Encode one message."""


@final
class StreamFraming:
    """The `Framing` of a byte stream (section 3.2).

    bytes_max   largest message, in bytes
    """

    __slots__ = ("_at", "_kept", "bytes_max", "fault", "unfinished")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.fault = ""
        self.unfinished = 0
        self._kept = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> None:
        """Take bytes of the peer."""
        if self._at:
            del self._kept[: self._at]
            self._at = 0
        self._kept += data

    def take(self) -> Frame | None:
        """Next message; None when it is incomplete or `fault` is set."""
        kept, at = self._kept, self._at
        left = len(kept) - at
        self.unfinished = left
        if self.fault or not left:
            return None
        nibble, token_bytes = kept[at] >> 4, kept[at] & 15
        if token_bytes > TOKEN_BYTES_MAX:
            self.fault = f"a token has at most {TOKEN_BYTES_MAX} bytes"
            return None
        head = 1 + _EXTRA[nibble]
        if left < head:
            return None
        length = _BASE[nibble] + int.from_bytes(kept[at + 1 : at + head], "big")
        size = head + 1 + token_bytes + length
        if size > self.bytes_max:
            self.fault = f"a message of {size} bytes: {self.bytes_max} are allowed"
            return None
        self.unfinished = size
        if left < size:
            return None
        start = at + head + 1 + token_bytes
        self._at = at + size
        self.unfinished = 0
        return Frame(kept[at + head], bytes(kept[at + head + 1 : start]), bytes(kept[start : self._at]))

    def encode(self, code: int, token: bytes, options: bytes, payload: bytes) -> bytes:
        """Encode one message for a stream."""
        length = len(options) + (1 + len(payload) if payload else 0)
        if length < _ONE:
            head = bytes((length << 4 | len(token), code))
        elif length < _TWO:
            head = bytes((13 << 4 | len(token), length - _ONE, code))
        elif length < _FOUR:
            head = b"%c%b%c" % (14 << 4 | len(token), (length - _TWO).to_bytes(2, "big"), code)
        else:
            head = b"%c%b%c" % (15 << 4 | len(token), (length - _FOUR).to_bytes(4, "big"), code)
        return b"".join((head, token, options, b"\xff", payload)) if payload else head + token + options


@final
class WebSocketFraming:
    """The `Framing` of WebSockets (section 4.2); each `feed` takes one whole message."""

    __slots__ = ("_messages", "fault", "unfinished")

    def __init__(self) -> None:
        self.fault = ""
        self.unfinished = 0
        self._messages: deque[bytes] = deque()

    def feed(self, data: bytes) -> None:
        """Take one message of the peer."""
        self._messages.append(data)

    def take(self) -> Frame | None:
        """Next message that was fed; None without one, or when `fault` is set."""
        if not self._messages or self.fault:
            return None
        data = self._messages.popleft()
        start = 2 + (data[0] & 15) if data else 2
        if not data or data[0] >> 4:
            self.fault = "the length of a message over WebSockets is 0"
        elif start > 2 + TOKEN_BYTES_MAX or start > len(data):
            self.fault = f"a token has at most {TOKEN_BYTES_MAX} bytes"
        else:
            return Frame(data[1], data[2:start], data[start:])
        return None

    def encode(self, code: int, token: bytes, options: bytes, payload: bytes) -> bytes:
        """Encode one message for a WebSocket."""
        head = bytes((len(token), code))
        return b"".join((head, token, options, b"\xff", payload)) if payload else head + token + options
