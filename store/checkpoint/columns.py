"""Columns of integers, names and keys, as they stand in the frames of a snapshot.

integers: type 1 | bytes 4 | values of the narrowest of the types B, H, I, q that holds them all, little-endian
names: bytes 4 | names in UTF-8, with FF, which UTF-8 does not contain, between them
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import Final, final

_HEAD = struct.Struct("<cI")
_SIZE = struct.Struct("<I")
_BETWEEN: Final = b"\xff"
_SWAP: Final = sys.byteorder == "big"
_MOST: Final = (("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32))


def pack(values: list[int] | array[int]) -> bytes:
    """Integers -> column."""
    code = "q"
    if not values or min(values) >= 0:
        most = max(values) if values else 0
        for narrow, bound in _MOST:
            if most < bound:
                code = narrow
                break
    column = array(code, values)
    if _SWAP:
        column.byteswap()
    data = column.tobytes()
    return _HEAD.pack(code.encode(), len(data)) + data


def pack_names(names: list[bytes]) -> bytes:
    """Names or keys -> column."""
    data = _BETWEEN.join(names)
    return _SIZE.pack(len(data)) + data


@final
class ColumnReader:
    """Reads the columns of a frame, one after the other. The frame's checksum has been checked."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def integers(self) -> array[int]:
        """The next column, of integers."""
        code, size = _HEAD.unpack_from(self._data, self._at)
        begin = self._at + _HEAD.size
        self._at = begin + size
        column: array[int] = array(code.decode())
        column.frombytes(self._data[begin : self._at])
        if _SWAP:
            column.byteswap()
        return column

    def names(self) -> list[bytes]:
        """The next column, of names; [b""] when there is none."""
        (size,) = _SIZE.unpack_from(self._data, self._at)
        begin = self._at + _SIZE.size
        self._at = begin + size
        return self._data[begin : self._at].split(_BETWEEN)
