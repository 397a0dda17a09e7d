"""The Avro event format (CloudEvents 1.0.2, Avro event format): one event in both directions, by the schema cloudevents.avsc.

The schema never changes and the reader bounds depth and number of values, which readers of any schema do not: a text of 64 KiB
could nest twenty thousand arrays. Union branches are numbers here, with their names beside them.
"""

from __future__ import annotations

import base64
import math
import struct
from typing import Final, final

import orjson

from protocols.cloudevents.event import (
    ATTRIBUTES_MAX,
    TEXT_ATTRIBUTES,
    CloudEvent,
    CloudEventError,
    check,
    check_name,
    check_value,
    is_json_type,
)

DEPTH_MAX: Final = 64
"""Arrays and maps of data that lie in one another."""
VALUES_MAX: Final = 4_096
"""Values of data that is neither bytes nor a string."""
_EXACT: Final = float(1 << 53)

_NULL, _BOOLEAN, _INT, _STRING, _BYTES, _DOUBLE, _MAP, _ARRAY, _RECORD = range(9)
_ATTRIBUTE: Final = (_NULL, _BOOLEAN, _INT, _STRING, _BYTES)
_DATA: Final = (_BYTES, _NULL, _BOOLEAN, _MAP, _ARRAY, _DOUBLE, _STRING)
_IN_DATA_MAP: Final = (_NULL, _BOOLEAN, _RECORD, _DOUBLE, _STRING)
_IN_RECORD: Final = (_NULL, _BOOLEAN, _MAP, _ARRAY, _DOUBLE, _STRING)
"""Branches of the unions of the schema, in its order."""


@final
class _Reader:
    """Values of Avro's binary encoding, one after another."""

    __slots__ = ("_at", "_content", "_values")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._values = 0

    def long(self) -> int:
        """A number of up to 64 bits, of either sign."""
        value = shift = 0
        while self._at < len(self._content) and shift < 64:
            byte = self._content[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise _illegal()

    def octets(self) -> bytes:
        """Bytes behind their length."""
        return self._take(self.long())

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._content):
            raise _illegal()
        taken = self._content[self._at : end]
        self._at = end
        return taken

    def text(self) -> str:
        """A string."""
        try:
            return self.octets().decode()
        except UnicodeDecodeError:
            raise CloudEventError("", "a string is not valid UTF-8") from None

    def boolean(self) -> bool:
        """True or false."""
        byte = self._take(1)[0]
        if byte > 1:
            raise _illegal()
        return byte == 1

    def double(self) -> float:
        """A number of eight bytes."""
        value: float = struct.unpack("<d", self._take(8))[0]
        return value

    def branch(self, union: tuple[int, ...]) -> int:
        """The kind of the value that follows, which has this union."""
        number = self.long()
        if not 0 <= number < len(union):
            raise _illegal()
        return union[number]

    def block(self) -> int:
        """Items of the next block of a map or an array; 0: there is none."""
        count = self.long()
        if count < 0:
            self.long()  # the block's bytes
            count = -count
        return count

    def value(self, kind: int, depth: int) -> object:
        """A value of the data, as orjson takes it."""
        self._count(depth)
        if kind == _NULL:
            return None
        if kind == _BOOLEAN:
            return self.boolean()
        if kind == _DOUBLE:
            number = self.double()
            if not math.isfinite(number):
                raise CloudEventError("data", "data holds a number that JSON does not have")
            return int(number) if number.is_integer() and abs(number) <= _EXACT else number
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            items: list[object] = []
            count = self.block()
            while count:
                for _ in range(count):
                    items.append(self._map(_IN_RECORD, depth + 1))
                count = self.block()
            return items
        return self._map(_IN_RECORD if kind == _RECORD else _IN_DATA_MAP, depth)

    def _count(self, depth: int) -> None:
        self._values += 1
        if depth > DEPTH_MAX or self._values > VALUES_MAX:
            raise CloudEventError("data", f"data has at most {VALUES_MAX} values, {DEPTH_MAX} in one another", too_large=True)

    def _map(self, union: tuple[int, ...], depth: int) -> dict[str, object]:
        """A map; with the union of the record it is the value of one. The values of a map in it are records."""
        self._count(depth)
        found: dict[str, object] = {}
        count = self.block()
        while count:
            for _ in range(count):
                name = self.text()
                kind = self.branch(union)
                found[name] = self._records(depth + 1) if kind == _MAP else self.value(kind, depth + 1)
            count = self.block()
        return found

    def _records(self, depth: int) -> dict[str, object]:
        """A map whose values are records."""
        self._count(depth)
        found: dict[str, object] = {}
        count = self.block()
        while count:
            for _ in range(count):
                name = self.text()
                found[name] = self.value(_RECORD, depth + 1)
            count = self.block()
        return found

    def end(self) -> None:
        """Raises CloudEventError when something is left."""
        if self._at != len(self._content):
            raise CloudEventError("", "there is more after the event")


def _illegal() -> CloudEventError:
    return CloudEventError("", "the content is no CloudEvent of the Avro format")


def decode(content: bytes) -> CloudEvent:
    """One event. Raises CloudEventError.

    As in JSON, data that is no bytes is a JSON value when datacontenttype is JSON or absent, and otherwise a string.
    """
    reader = _Reader(content)
    attributes: dict[bytes, bytes] = {}
    typed: list[bytes] = []
    entries = 0
    count = reader.block()
    while count:
        entries += count
        if entries > ATTRIBUTES_MAX:
            raise CloudEventError("", f"an event has at most {ATTRIBUTES_MAX} attributes", too_large=True)
        for _ in range(count):
            name = reader.text().encode()
            check_name(name)
            if name in attributes:
                raise CloudEventError(name.decode(), f"attribute {name.decode()} is given twice")
            kind = reader.branch(_ATTRIBUTE)
            value = _attribute(name, kind, reader)
            if value is not None:
                check_value(name, value)
                attributes[name] = value
                if kind in (_BOOLEAN, _INT) and name not in TEXT_ATTRIBUTES:
                    typed.append(name)
        count = reader.block()
    check(attributes)
    content_type = attributes.get(b"datacontenttype")
    is_json = content_type is None or is_json_type(content_type)
    kind = reader.branch(_DATA)
    if kind == _BYTES:
        data, is_json = reader.octets(), content_type is not None and is_json
    elif kind == _NULL:
        data, is_json = b"", False
    elif is_json:
        data = orjson.dumps(reader.value(kind, 1))
    elif kind == _STRING:
        data = reader.text().encode()
    else:
        raise CloudEventError("data", "data must be bytes or a string unless datacontenttype is JSON")
    reader.end()
    return CloudEvent(attributes, data, is_json, typed=typed)


def _attribute(name: bytes, kind: int, reader: _Reader) -> bytes | None:
    """The canonical string of an attribute of this kind; None: it has no value."""
    if kind == _NULL:
        return None
    if kind == _BOOLEAN:
        return b"true" if reader.boolean() else b"false"
    if kind == _INT:
        number = reader.long()
        if not -0x80000000 <= number <= 0x7FFFFFFF:
            raise CloudEventError(name.decode(), f"attribute {name.decode()} is outside the 32-bit integers")
        return b"%d" % number
    if kind == _BYTES:
        return base64.b64encode(reader.octets())
    return reader.octets()


def encode(event: CloudEvent) -> bytes:
    """One event. Integers and Booleans are themselves, other attributes strings; data is bytes of the type datacontenttype."""
    parts = [_long(len(event.attributes))]
    scalars = dict(event.scalars())
    for name, value in event.attributes.items():
        parts += (_long(len(name)), name)
        number = scalars.get(name)
        if number is None:
            parts += (_long(_ATTRIBUTE.index(_STRING)), _long(len(value)), value)
        elif isinstance(number, bool):
            parts += (_long(_ATTRIBUTE.index(_BOOLEAN)), b"\x01" if number else b"\x00")
        elif isinstance(number, int):
            parts += (_long(_ATTRIBUTE.index(_INT)), _long(number))
    parts.append(_long(0))
    if event.data:
        parts += (_long(_DATA.index(_BYTES)), _long(len(event.data)), event.data)
    else:
        parts.append(_long(_DATA.index(_NULL)))
    return b"".join(parts)


def _long(value: int) -> bytes:
    """A number of at most 64 bits."""
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
