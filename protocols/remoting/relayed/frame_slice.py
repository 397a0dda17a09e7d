"""Frames as they came: the place of each in the received bytes, and the fields of its header that the relay needs."""

from __future__ import annotations

import struct
from functools import cache
from typing import Final, final

import orjson

from domain.octets import uint32
from protocols.remoting.wire.frame import FrameBuffer
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY, FLAG_RESPONSE, LANGUAGE_JAVA, LANGUAGES, split

_FIXED: Final = struct.Struct(">hBhii")
_OPAQUE: Final = struct.Struct(">i")
_PREFIX: Final = struct.Struct(">II")
_OPAQUE_AT: Final = 8 + 5
_SENDER: Final = struct.Struct(">hBh")
JAVA: Final = LANGUAGES[LANGUAGE_JAVA]


@final
class FrameSlice:
    """One frame within received bytes.

    start, end  the place of the frame in them
    body_at     the place of its body
    serialize   encoding of its header: JSON or BINARY
    code        request code as it was sent, or response code
    """

    __slots__ = ("_fields", "body_at", "code", "data", "end", "flag", "opaque", "serialize", "start")

    def __init__(self, data: bytes, start: int, end: int, body_at: int, serialize: int) -> None:
        self.data = data
        self.start = start
        self.end = end
        self.body_at = body_at
        self.serialize = serialize
        self.code = 0
        self.opaque = 0
        self.flag = 0
        self._fields: dict[str, object] | None = None

    @property
    def response(self) -> bool:
        """True for a reply."""
        return self.flag & FLAG_RESPONSE != 0

    @property
    def oneway(self) -> bool:
        """True for a request without reply."""
        return self.flag & FLAG_ONEWAY != 0

    @property
    def size(self) -> int:
        """Bytes of the frame."""
        return self.end - self.start

    @property
    def whole(self) -> bytes:
        """The frame."""
        return self.data[self.start : self.end]

    @property
    def body(self) -> bytes:
        """Its body, b"" without one."""
        return self.data[self.body_at : self.end]

    @property
    def header(self) -> bytes:
        """Its header, encoded."""
        return self.data[self.start + 8 : self.body_at]

    def set_fields(self, fields: dict[str, object] | None) -> None:
        """The ext fields of a JSON header, decoded."""
        self._fields = fields

    def field(self, name: str) -> str:
        """The text of one ext field; "" when it is absent, or no text."""
        fields = self._fields
        if fields is None:
            if self.serialize == BINARY and self.data.find(_key(name), self.start, self.body_at) < 0:
                return ""
            fields = self._fields = self._binary_fields() if self.serialize == BINARY else {}
        value = fields.get(name, "")
        return value if isinstance(value, str) else ""

    def _binary_fields(self) -> dict[str, object]:
        at = self.start + 8 + 13
        remark = uint32(self.data, at)
        found = split(self.data[at + 8 + remark : self.body_at]) or {}
        return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in found.items()}

    def java_version(self) -> int:
        """The MQVersion ordinal of a Java client, -1 for clients in other languages."""
        if self.serialize == BINARY:
            _, language, version = _SENDER.unpack_from(self.data, self.start + 8)
            return int(version) if language == LANGUAGE_JAVA else -1
        header = orjson.loads(self.header)
        version = header.get("version")
        return version if header.get("language", JAVA) == JAVA and isinstance(version, int) else -1

    def numbered(self, opaque: int, flag: int | None = None) -> bytes:
        """The frame with another number, and with another flag unless that is None; all else is as it came."""
        flag = self.flag if flag is None else flag
        if self.serialize == BINARY:
            at = self.start + _OPAQUE_AT
            return b"".join(
                (self.data[self.start : at], _OPAQUE.pack(opaque), _OPAQUE.pack(flag), self.data[at + 8 : self.end])
            )
        header = orjson.loads(self.header)
        header["opaque"] = opaque
        header["flag"] = flag
        return self._with(orjson.dumps(header), self.body)

    def with_body(self, body: bytes) -> bytes:
        """The frame with another body."""
        return self._with(self.header, body)

    def _with(self, header: bytes, body: bytes) -> bytes:
        return b"".join((_PREFIX.pack(4 + len(header) + len(body), self.serialize << 24 | len(header)), header, body))


@cache
def _key(name: str) -> bytes:
    """A field's name as it is in a binary header."""
    key = name.encode()
    return len(key).to_bytes(2, "big") + key


@final
class FrameSplitter(FrameBuffer[FrameSlice]):
    """Finds the frames of a stream without copying them: those of one chunk lie one behind the other in the same bytes."""

    __slots__ = ()

    def _frame(self, data: bytes, at: int, end: int) -> FrameSlice | None:
        return _slice(data, at, end)


def _slice(data: bytes, start: int, end: int) -> FrameSlice | None:
    kind = data[start + 4]
    body_at = start + 8 + (data[start + 5] << 16 | data[start + 6] << 8 | data[start + 7])
    frame = FrameSlice(data, start, end, body_at, kind)
    if kind == BINARY:
        code, _, _, frame.opaque, frame.flag = _FIXED.unpack_from(data, start + 8)
        frame.code = code if code >= 0 else code & 0xFFFF
        ends = start + 8 + 17 + uint32(data, start + 8 + 13) + 4
        return frame if ends <= body_at and uint32(data, ends - 4) == body_at - ends else None
    try:
        found = orjson.loads(data[start + 8 : body_at])
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict):
        return None
    code, opaque, flag, fields = found.get("code", 0), found.get("opaque", 0), found.get("flag", 0), found.get("extFields")
    for number in (code, opaque, flag):
        if type(number) is not int or not -0x80000000 <= number <= 0x7FFFFFFF:
            return None
    if fields is not None and not isinstance(fields, dict):
        return None
    frame.code = code
    frame.opaque = opaque
    frame.flag = flag
    frame.set_fields(fields if fields is not None else {})
    return frame
