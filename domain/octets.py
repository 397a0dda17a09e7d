"""Unsigned big-endian integers within bytes, for what is read of each message.

`int.from_bytes` makes a slice and parses its arguments: in compiled code these functions take a tenth of its instructions.
They raise IndexError where the bytes end before the integer does.
"""

from __future__ import annotations


def uint16(data: bytes, at: int) -> int:
    """The 2 bytes from `at` on."""
    return data[at] << 8 | data[at + 1]


def uint32(data: bytes, at: int) -> int:
    """The 4 bytes from `at` on."""
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def uint64(data: bytes, at: int) -> int:
    """The 8 bytes from `at` on."""
    return uint32(data, at) << 32 | uint32(data, at + 4)
