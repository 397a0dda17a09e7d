"""Remoting headers in both encodings (RocketMQ's RemotingSerializable and RocketMQSerializable).

JSON     {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,"version":479}
binary   code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark 4 + n | ext 4 + n
         ext is entries of: key 2 + n | value 4 + n, all UTF-8

The code of a binary header has 16 bits: POP codes arrive truncated (200050 as 3442) and are widened again here.
The ext section of a binary header is decoded at the first call of `fields()`; sends do not call it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import orjson

from domain.octets import uint32

JSON: Final = 0
BINARY: Final = 1

FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2

LANGUAGES: Final[tuple[str, ...]] = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
)  # fmt: skip
LANGUAGE_JAVA: Final = 0
LANGUAGE_PYTHON: Final = 3
LANGUAGE_OTHER: Final = 7
VERSION: Final = 479
"""MQVersion ordinal in our headers: V5_3_3."""

BINARY_BYTES_MIN: Final = 21

FIELDS_MAX: Final = 4_096
"""Ext fields of one header. Clients send some twenty."""

_FIXED = struct.Struct(">hBhiii")
_FIXED_ZERO = struct.Struct(">hBhiiii")
_SHORT = struct.Struct(">H")
_INT = struct.Struct(">i")
_SHORTS: Final = [_SHORT.pack(size) for size in range(256)]
_INTS: Final = [_INT.pack(size) for size in range(256)]
"""Lengths of most names and values, encoded."""
_LANGUAGE_OF: Final[dict[str, int]] = {name: at for at, name in enumerate(LANGUAGES)}
_WIDENED: Final[dict[int, int]] = {code & 0xFFFF: code for code in (*range(200050, 200057), *range(200070, 200080), 200151)}


class Header:
    """The header of a frame.

    code        request code, or response code when `flag` has FLAG_RESPONSE
    language    index into LANGUAGES, LANGUAGE_OTHER when unknown
    version     MQVersion ordinal of the sender
    opaque      the sender's request id, signed 32 bits, echoed in the reply
    flag        FLAG_RESPONSE and FLAG_ONEWAY
    remark      text for people, "" when absent
    serialize   encoding: JSON or BINARY; a reply has the encoding of its request
    ext         encoded ext section of a binary header, b"" for JSON
    _fields     decoded ext fields; None: not decoded yet
    """

    __slots__ = ("_fields", "code", "ext", "flag", "language", "opaque", "remark", "serialize", "version")

    def __init__(self, serialize: int) -> None:
        self.serialize = serialize
        self.code = 0
        self.language = 0
        self.version = 0
        self.opaque = 0
        self.flag = 0
        self.remark = ""
        self.ext = b""
        self._fields: dict[str, str] | None = None

    @property
    def oneway(self) -> bool:
        """True for a request without reply."""
        return self.flag & 2 != 0

    @property
    def response(self) -> bool:
        """True for a reply."""
        return self.flag & 1 != 0

    def fields(self) -> dict[str, str] | None:
        """The ext fields, decoded at the first call; None when the ext section of a binary header is malformed."""
        if self._fields is None:
            found = split(self.ext)
            if found is None:
                return None
            self._fields = {text(key): text(value) for key, value in found.items()}
        return self._fields

    def set_fields(self, fields: dict[str, str]) -> None:
        """Replace the ext fields."""
        self._fields = fields


def text(encoded: bytes) -> str:
    """UTF-8 as text; what is malformed is replaced. Strict decoding is compiled to one call."""
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return encoded.decode("utf-8", "replace")


def octets(text: str) -> bytes:
    """The inverse of `text`, and of a decoding that keeps what is malformed (the error handler surrogateescape)."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")


def split(ext: bytes) -> dict[bytes, bytes] | None:
    """A binary ext section -> its fields; None when its lengths do not add up. Empty keys are skipped, as Java does."""
    out: dict[bytes, bytes] = {}
    at = 0
    end = len(ext)
    while at < end:
        if at + 2 > end:
            return None
        key_end = at + 2 + (ext[at] << 8 | ext[at + 1])
        value_at = key_end + 4
        if value_at > end:
            return None
        size = uint32(ext, key_end)
        if value_at + size > end:
            return None
        if key_end > at + 2:
            out[ext[at + 2 : key_end]] = ext[value_at : value_at + size]
        at = value_at + size
    return out


def read_binary(into: Header, data: bytes, at: int, size: int) -> bool:
    """Decode the binary header of `size` bytes at `at`; False when it is malformed. Leaves the ext section encoded."""
    if size < 21:
        return False
    code, language, version, opaque, flag, remark = _FIXED.unpack_from(data, at)
    end = at + size
    at += 17
    if remark < 0 or at + remark + 4 > end:
        return False
    if remark > 0:
        into.remark = data[at : at + remark].decode("utf-8", "replace")
        at += remark
    at += 4
    if uint32(data, at - 4) != end - at:
        return False
    into.code = _WIDENED.get(code, code) if code > 3000 and flag & 1 == 0 else code
    into.language = language if language < 14 else 7
    into.version = version
    into.opaque = opaque
    into.flag = flag
    into.ext = data[at:end]
    return True


def read_json(into: Header, data: bytes) -> bool:
    """Decode a JSON header into `into`; False when it is malformed. Ext numbers and booleans become strings, as in Java."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(found, dict):
        return False
    code = _number(found.get("code", 0))
    opaque = _number(found.get("opaque", 0))
    flag = _number(found.get("flag", 0))
    version = _number(found.get("version", 0))
    remark = found.get("remark")
    fields = found.get("extFields")
    if code is None or opaque is None or flag is None or version is None:
        return False
    if remark is not None and not isinstance(remark, str):
        return False
    into.code = code
    into.opaque = opaque
    into.flag = flag
    into.version = version
    into.language = _LANGUAGE_OF.get(found.get("language") or "JAVA", 7) if isinstance(found.get("language"), str) else 0
    into.remark = remark or ""
    if fields is None:
        into.set_fields({})
        return True
    if not isinstance(fields, dict) or len(fields) > FIELDS_MAX:
        return False
    for key, value in fields.items():
        if not isinstance(value, str):
            if value is None or isinstance(value, (dict, list)):
                return _read_loose(into, fields)
            fields[key] = _text(value)
    into.set_fields(fields)
    return True


def _read_loose(into: Header, fields: dict[str, object]) -> bool:
    kept: dict[str, str] = {}
    for key, value in fields.items():
        if isinstance(value, (dict, list)):
            return False
        if value is not None:
            kept[key] = _text(value)
    into.set_fields(kept)
    return True


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not -0x80000000 <= value <= 0x7FFFFFFF:
        return None
    return value


def encode_ext(fields: Mapping[str, str]) -> bytes:
    """Ext fields -> a binary ext section. Empty keys and empty values are left out, as Java does."""
    out: list[bytes] = []
    for name, text in fields.items():
        key = name.encode()
        value = octets(text)
        if key and value:
            out.append(_SHORTS[len(key)] if len(key) < 256 else _SHORT.pack(len(key)))
            out.append(key)
            out.append(_INTS[len(value)] if len(value) < 256 else _INT.pack(len(value)))
            out.append(value)
    return b"".join(out)


def encode_binary(code: int, language: int, version: int, opaque: int, flag: int, remark: str, ext: bytes) -> bytes:
    """Encode a binary header. `code` is truncated to 16 bits, as it is for POP codes; other codes must fit 16 signed bits."""
    narrow = code & 0xFFFF
    if narrow > 0x7FFF:
        narrow -= 0x10000
    if not remark:
        return _FIXED_ZERO.pack(narrow, language, version, opaque, flag, 0, len(ext)) + ext
    text = remark.encode("utf-8", "replace")
    return b"".join(
        (_FIXED.pack(narrow, language, version, opaque, flag, len(text)), text, _INT.pack(len(ext)), ext),
    )


def encode_json(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str, fields: Mapping[str, str] | None
) -> bytes:
    """Encode a JSON header, keys in Java's order. Ext values are strings: the Go client reads no other type."""
    out: dict[str, object] = {"code": code}
    if fields is not None:
        out["extFields"] = fields
    out["flag"] = flag
    out["language"] = LANGUAGES[language]
    out["opaque"] = opaque
    if remark:
        out["remark"] = remark
    out["serializeTypeCurrentRPC"] = "JSON"
    out["version"] = version
    return orjson.dumps(out)
