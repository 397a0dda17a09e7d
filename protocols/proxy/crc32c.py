"""CRC32c (RFC 3720, appendix B.4): the Castagnoli polynomial, reflected."""

from __future__ import annotations

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78


def _table() -> tuple[int, ...]:
    table: list[int] = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE: Final = _table()


def crc32c(data: bytes) -> int:
    """The 32 bit checksum of `data`."""
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFF
