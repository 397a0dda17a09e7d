"""CBOR (RFC 8949) of bounded size and depth, with definite lengths, for the bodies of requests and responses."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

PAIRS_MAX: Final = 16
"""Limit on the pairs of a map of texts."""
ITEMS_MAX: Final = 256
"""Limit on the items of one body."""
DEPTH_MAX: Final = 8
_UINT: Final = 0
_NEGATIVE: Final = 1
_BYTES: Final = 2
_TEXT: Final = 3
_ARRAY: Final = 4
_MAP: Final = 5
_TAG: Final = 6
_FLOATS: Final = {25: struct.Struct(">e"), 26: struct.Struct(">f"), 27: struct.Struct(">d")}
_SIMPLE: Final = {20: False, 21: True, 22: None}


class Tagged(NamedTuple):
    """An item with a tag."""

    tag: int
    value: Any


class CborError(Exception):
    """The bytes are not CBOR of the accepted subset."""


def decode(data: bytes) -> Any:
    """One item: int, bytes, str, list, dict, Tagged, float, bool or None.

    Raises CborError for anything else: bytes behind it, an indefinite length, a repeated key, a map or an array as a key, more
    than ITEMS_MAX items, or deeper than DEPTH_MAX.
    """
    reader = _Reader(data)
    found = reader.item(0)
    if reader.at != len(data):
        raise CborError("bytes behind the item")
    return found


def text_map(data: bytes) -> dict[str, str] | None:
    """Decode one map of at most PAIRS_MAX texts to texts. None for anything else."""
    try:
        found = decode(data)
    except CborError:
        return None
    if not isinstance(found, dict) or len(found) > PAIRS_MAX:
        return None
    texts = {key: value for key, value in found.items() if isinstance(key, str) and isinstance(value, str)}
    return texts if len(texts) == len(found) else None


def encode(item: Any) -> bytes:
    """Encode an int, bytes, str, list, dict, Tagged, float, bool or None. A map keeps its order."""
    if item is None or isinstance(item, bool):
        return b"\xf6" if item is None else b"\xf5" if item else b"\xf4"
    if isinstance(item, int):
        return _head(_UINT, item) if item >= 0 else _head(_NEGATIVE, -1 - item)
    if isinstance(item, float):
        return b"\xfb" + _FLOATS[27].pack(item)
    if isinstance(item, bytes):
        return _head(_BYTES, len(item)) + item
    if isinstance(item, str):
        data = item.encode()
        return _head(_TEXT, len(data)) + data
    if isinstance(item, Tagged):
        return _head(_TAG, item.tag) + encode(item.value)
    if isinstance(item, dict):
        return _head(_MAP, len(item)) + b"".join(encode(each) for pair in item.items() for each in pair)
    assert isinstance(item, list), item
    return _head(_ARRAY, len(item)) + b"".join(encode(each) for each in item)


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes((major << 5 | argument,))
    for low, size in ((24, 1), (25, 2), (26, 4)):
        if argument < 1 << 8 * size:
            return bytes((major << 5 | low,)) + argument.to_bytes(size, "big")
    return bytes((major << 5 | 27,)) + argument.to_bytes(8, "big")


class _Reader:
    """Reader of items; `at`: byte of the next one; `left`: items that may follow."""

    __slots__ = ("at", "data", "left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.left = ITEMS_MAX

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise CborError("the item is cut")
        found = self.data[self.at : end]
        self.at = end
        return found

    def item(self, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > DEPTH_MAX:
            raise CborError("too many items, or too deep")
        first = self.take(1)[0]
        major, low = first >> 5, first & 31
        if low > 27:
            raise CborError("an indefinite length")
        if major == 7:
            return self._simple(low)
        argument = low if low < 24 else int.from_bytes(self.take(1 << (low - 24)), "big")
        if major <= _NEGATIVE:
            return argument if major == _UINT else -1 - argument
        if major in (_BYTES, _TEXT):
            value = self.take(argument)
            return value if major == _BYTES else _text(value)
        if major == _TAG:
            return Tagged(argument, self.item(depth + 1))
        if argument > self.left:
            raise CborError("too many items")
        if major == _ARRAY:
            return [self.item(depth + 1) for _ in range(argument)]
        return self._map(argument, depth)

    def _map(self, pairs: int, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in range(pairs):
            key = self.item(depth + 1)
            if not isinstance(key, int | str | bytes) or isinstance(key, bool) or key in found:
                raise CborError("a key is repeated, or is neither a number nor a string")
            found[key] = self.item(depth + 1)
        return found

    def _simple(self, low: int) -> Any:
        if low in _FLOATS:
            return _FLOATS[low].unpack(self.take(_FLOATS[low].size))[0]
        if low in _SIMPLE:
            return _SIMPLE[low]
        raise CborError("a simple value that has no meaning")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CborError("a text is not UTF-8") from error
