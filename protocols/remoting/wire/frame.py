"""Remoting frames: length 4 | serialize type 1 and header length 3 | header | body (RocketMQ's RemotingCommand, NettyDecoder).

Codes are not checked here: a frame is a request or a reply, of a client or of a server.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Generic, TypeVar, final

from domain.limits import REMOTING_FRAME_BYTES_MAX
from domain.octets import uint32
from protocols.remoting.wire.header import (
    BINARY,
    BINARY_BYTES_MIN,
    JSON,
    LANGUAGE_JAVA,
    VERSION,
    Header,
    encode_binary,
    encode_ext,
    encode_json,
    read_binary,
    read_json,
)

HEADER_BYTES_MAX: Final = 256 * 1024
"""Bytes of a header: 32,767 of properties, of which JSON makes 196,602 at most, and the other fields."""

JSON_BYTES_MIN: Final = 2
"""Bytes of the shortest header in JSON: `{}`."""

FAULT_LENGTH: Final = "frame-length"
FAULT_HEADER: Final = "frame-header"

_PREFIX = struct.Struct(">II")


@final
class Frame(Header):
    """One frame: a header and its body; b"" without body."""

    __slots__ = ("body",)

    def __init__(self, serialize: int, body: bytes) -> None:
        Header.__init__(self, serialize)
        self.body = body


AnyFrame = TypeVar("AnyFrame")


class FrameBuffer(ABC, Generic[AnyFrame]):
    """A stream of frames that comes in chunks of any size: finds where its frames end, and keeps the last, incomplete one.

    fault   "" while the stream is well-formed, else FAULT_LENGTH or FAULT_HEADER: `feed` has returned all frames before the
            malformed one, returns nothing more, and the connection has to be closed
    held    bytes received of an incomplete frame; 0 when there is none
    _limit  longest frame in bytes, its 4 length bytes included; a longer one is FAULT_LENGTH
    _need   bytes that are needed before the frame can be looked at again
    """

    def __init__(self, limit: int = REMOTING_FRAME_BYTES_MAX) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._need = 0
        self.held = 0
        self.fault = ""

    def feed(self, data: bytes) -> list[AnyFrame]:
        """The frames that a chunk completes, possibly none."""
        data = self._joined(data)
        out: list[AnyFrame] = []
        at = 0
        size = len(data)
        while at < size:
            end = self._end(data, at)
            if end == 0:
                break
            frame = self._frame(data, at, end)
            if frame is None:
                self.fault = FAULT_HEADER
                break
            out.append(frame)
            at = end
        return out

    @abstractmethod
    def _frame(self, data: bytes, at: int, end: int) -> AnyFrame | None:
        """The frame from `at` to `end`; None when its header is malformed."""

    @property
    def unfinished(self) -> int:
        """Bytes that the incomplete frame has in all, as far as its first bytes show; 0 without one."""
        return self._need if self.held else 0

    def _joined(self, data: bytes) -> bytes:
        """A chunk behind the bytes that were held; b"" while these are too few, and after a fault."""
        if self.fault:
            return b""
        if not self.held:
            return data
        self._parts.append(data)
        self.held += len(data)
        if self.held < self._need:
            return b""
        data = b"".join(self._parts)
        self._parts.clear()
        self.held = 0
        return data

    def _end(self, data: bytes, at: int) -> int:
        """The end of the frame at `at`. 0: it is malformed, and `fault` is set; or it is incomplete, and is held."""
        there = len(data) - at
        need = self._need_at(data, at, there)
        if need < 0:
            return 0
        if need > there:
            self._parts.append(data[at:] if at else data)
            self.held = there
            self._need = need
            return 0
        return at + need

    def _need_at(self, data: bytes, at: int, there: int) -> int:
        """Size of the frame at `at` in bytes, or the bytes needed to compute it; -1 with `fault` set for a malformed frame."""
        if data[at] != 0:
            self.fault = FAULT_LENGTH
            return -1
        if there < 4:
            return 4
        length = uint32(data, at)
        if length < 4 + JSON_BYTES_MIN or length + 4 > self._limit:
            self.fault = FAULT_LENGTH
            return -1
        if there < 8:
            return 8
        header = data[at + 5] << 16 | data[at + 6] << 8 | data[at + 7]
        kind = data[at + 4]
        least = BINARY_BYTES_MIN if kind else JSON_BYTES_MIN
        if kind > BINARY or header + 4 > length or header > HEADER_BYTES_MAX or header < least:
            self.fault = FAULT_HEADER
            return -1
        return length + 4


@final
class FrameDecoder(FrameBuffer[Frame]):
    """Decodes a stream of frames."""

    def _frame(self, data: bytes, at: int, end: int) -> Frame | None:
        kind = data[at + 4]
        size = data[at + 5] << 16 | data[at + 6] << 8 | data[at + 7]
        frame = Frame(kind, data[at + 8 + size : end])
        if kind == BINARY:
            return frame if read_binary(frame, data, at + 8, size) else None
        return frame if read_json(frame, data[at + 8 : at + 8 + size]) else None


def head(
    code: int,
    opaque: int,
    body_size: int,
    fields: Mapping[str, str] | None,
    flag: int,
    remark: str,
    serialize: int,
    language: int = LANGUAGE_JAVA,
    version: int = VERSION,
) -> bytes:
    """The part of a frame before its body of `body_size` bytes: lengths and header."""
    if serialize == BINARY:
        header = encode_binary(code, language, version, opaque, flag, remark, encode_ext(fields or {}))
    else:
        header = encode_json(code, language, version, opaque, flag, remark, fields)
    size = len(header)
    return _PREFIX.pack(4 + size + body_size, serialize << 24 | size) + header


def encode(
    code: int,
    opaque: int,
    *,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    flag: int = 0,
    remark: str = "",
    serialize: int = JSON,
    language: int = LANGUAGE_JAVA,
    version: int = VERSION,
) -> bytes:
    """Encode one frame. `flag`: FLAG_ONEWAY for a request without reply, FLAG_RESPONSE for a reply, 0 for a request."""
    return head(code, opaque, len(body), fields, flag, remark, serialize, language, version) + body
