"""Remoting frames: length 4 | serialize type 1 and header length 3 | header | body (RocketMQ's RemotingCommand, NettyDecoder).

Codes are not checked here: a frame is a request or a reply, of a client or of a server.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, final

from domain.limits import REMOTING_FRAME_BYTES_MAX
from domain.octets import uint32
from protocols.remoting.header import (
    BINARY,
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


@final
class FrameDecoder:
    """Decoder of a stream of frames, split into chunks in any way.

    fault   "" while the stream is well-formed, else FAULT_LENGTH or FAULT_HEADER: all frames before the malformed one have
            been returned, `feed` returns nothing more, and the connection has to be closed
    _limit  longest frame in bytes, its 4 length bytes included; a longer one is FAULT_LENGTH
    _parts  chunks of an incomplete frame
    _held   bytes in `_parts`
    _need   bytes that `_parts` must have before decoding continues
    """

    __slots__ = ("_held", "_limit", "_need", "_parts", "fault")

    def __init__(self, limit: int = REMOTING_FRAME_BYTES_MAX) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0
        self._need = 0
        self.fault = ""

    @property
    def held(self) -> int:
        """Bytes received of an incomplete frame; 0 when there is none."""
        return self._held

    @property
    def unfinished(self) -> int:
        """Bytes that the incomplete frame has in all, as far as its first bytes tell; 0 without one."""
        return self._need if self._held else 0

    def feed(self, data: bytes) -> list[Frame]:
        """Decode a chunk. Returns the frames that it completes, possibly none."""
        if self.fault:
            return []
        if self._held:
            self._parts.append(data)
            self._held += len(data)
            if self._held < self._need:
                return []
            data = b"".join(self._parts)
            self._parts.clear()
            self._held = 0
        out: list[Frame] = []
        at = 0
        size = len(data)
        while at < size:
            need = self._whole(data, at, size)
            if need < 0:
                return out
            if at + need > size:
                self._parts.append(data[at:] if at else data)
                self._held = size - at
                self._need = need
                return out
            frame = self._frame(data, at, need)
            if frame is None:
                self.fault = FAULT_HEADER
                return out
            out.append(frame)
            at += need
        return out

    def _whole(self, data: bytes, at: int, size: int) -> int:
        """Size of the frame at `at` in bytes, or the bytes needed to compute it; -1 with `fault` set for a malformed frame."""
        there = size - at
        if data[at] != 0:
            self.fault = FAULT_LENGTH
            return -1
        if there < 4:
            return 4
        length = uint32(data, at)
        if length < 6 or length + 4 > self._limit:
            self.fault = FAULT_LENGTH
            return -1
        if there >= 8:
            header = data[at + 5] << 16 | data[at + 6] << 8 | data[at + 7]
            kind = data[at + 4]
            if kind > 1 or header + 4 > length or header > HEADER_BYTES_MAX or header < (21 if kind else 2):
                self.fault = FAULT_HEADER
                return -1
            return length + 4
        return 8

    def _frame(self, data: bytes, at: int, need: int) -> Frame | None:
        kind = data[at + 4]
        size = data[at + 5] << 16 | data[at + 6] << 8 | data[at + 7]
        frame = Frame(kind, data[at + 8 + size : at + need])
        if kind == 1:
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
