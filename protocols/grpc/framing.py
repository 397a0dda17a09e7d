"""gRPC over HTTP/2 after the specification "PROTOCOL-HTTP2": prefixed messages, timeouts, status trailers."""

from __future__ import annotations

import zlib
from typing import Final

from domain.octets import uint32

PREFIX_BYTES: Final = 5
KEPT_BYTES_MAX: Final = 64 * 1024
"""Bytes of taken messages that are kept at most, together with as many bytes that are not taken."""
OK: Final = 0
INVALID_ARGUMENT: Final = 3
RESOURCE_EXHAUSTED: Final = 8
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
REFUSALS: Final = {
    INVALID_ARGUMENT: "argument-illegal",
    RESOURCE_EXHAUSTED: "message-too-large",
    UNIMPLEMENTED: "not-supported",
    INTERNAL: "malformed",
}
"""grpc-status -> the name under which the refusal is counted (domain.refusal)."""

_UNITS: Final[dict[int, int]] = {
    0x48: 3_600_000_000_000, 0x4D: 60_000_000_000, 0x53: 1_000_000_000, 0x6D: 1_000_000, 0x75: 1_000, 0x6E: 1,
}  # fmt: skip
_GZIP_ONLY = 16 + zlib.MAX_WBITS


class FramingError(Exception):
    """A request with invalid gRPC framing. `status` is its grpc-status, the text its grpc-message. Caught in the adapter."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def frame(message: bytes) -> bytes:
    """One uncompressed message with its prefix."""
    return b"\x00" + len(message).to_bytes(4, "big") + message


def timeout_ns(value: bytes) -> int:
    """A grpc-timeout (`3S`, `500m`: 1 to 8 digits and a unit) in nanoseconds; -1 when it is malformed."""
    unit = _UNITS.get(value[-1]) if value else None
    digits = value[:-1]
    if unit is None or not 0 < len(digits) <= 8 or not digits.isdigit():
        return -1
    return int(digits) * unit


def open_message(flag: int, body: bytes, gzip: bool, limit: int) -> bytes:
    """The message after a prefix with `flag`, decompressed.

    Raises FramingError: compression without grpc-encoding, an unknown flag, corrupt data, more than `limit` bytes.
    """
    if flag == 0:
        return body
    if flag != 1 or not gzip:
        raise FramingError(INTERNAL, "a message is marked as compressed, but grpc-encoding names no compression")
    stream = zlib.decompressobj(_GZIP_ONLY)
    try:
        message = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise FramingError(INTERNAL, f"a compressed message cannot be read: {error}") from error
    if len(message) > limit:
        raise FramingError(RESOURCE_EXHAUSTED, f"a message is larger than {limit} bytes when decompressed")
    if not stream.eof:
        raise FramingError(INTERNAL, "a compressed message is cut short")
    return message


class Messages:
    """Collects the parts of one request stream, and gives its messages of at most `limit` bytes, one at a time.

    A message stays compressed until it is taken.
    """

    __slots__ = ("_at", "_gzip", "_length", "_limit", "_parts", "held")

    def __init__(self, gzip: bool, limit: int) -> None:
        self.held = 0
        """Bytes that have not been taken."""
        self._gzip = gzip
        self._limit = limit
        self._parts: list[bytes] = []
        self._at = 0  # where the next message begins in the first part
        self._length = -1  # of the next message; -1: not known

    def feed(self, data: bytes) -> None:
        """Add the next part of the stream."""
        self._parts.append(data)
        self.held += len(data)

    def ready(self) -> bool:
        """True when a whole message is there. Raises FramingError for one that is announced with more than `limit` bytes."""
        if self._length < 0:
            if self.held < PREFIX_BYTES:
                return False
            data, at = self._whole(PREFIX_BYTES), self._at
            length = uint32(data, at + 1)
            if length > self._limit:
                raise FramingError(RESOURCE_EXHAUSTED, f"a message has {length} bytes, {self._limit} are allowed")
            self._length = length
        return self.held >= PREFIX_BYTES + self._length

    def follows(self) -> bool:
        """True when there are bytes behind the next message, which is `ready`."""
        return self.held > PREFIX_BYTES + self._length

    def take(self) -> bytes:
        """The next message, which is `ready`, decompressed. Raises FramingError."""
        size = PREFIX_BYTES + self._length
        data, at = self._whole(size), self._at
        end = at + size
        self.held -= size
        self._length = -1
        if end == len(data):
            del self._parts[0]
            self._at = 0
        elif end > KEPT_BYTES_MAX and 2 * end > len(data):
            self._parts[0] = data[end:]
            self._at = 0
        else:
            self._at = end
        return open_message(data[at], data[at + PREFIX_BYTES : end], self._gzip, self._limit)

    def _whole(self, size: int) -> bytes:
        """The first part, with at least `size` bytes of the next message."""
        parts = self._parts
        if len(parts[0]) - self._at < size:
            parts[0] = parts[0][self._at :]
            self._at = 0
            self._parts = parts = [b"".join(parts)]
        return parts[0]


def percent_encode(text: str) -> bytes:
    """A grpc-message value: printable ASCII unchanged, `%` and all other bytes of the UTF-8 text as %XX."""
    out = bytearray()
    for byte in text.encode("utf-8", "replace"):
        if 0x20 <= byte <= 0x7E and byte != 0x25:
            out.append(byte)
        else:
            out += b"%%%02X" % byte
    return bytes(out)
