"""CRC-32, that of zlib and of RocketMQ's records (ISO 3309), by zlib-ng: 0.07 us a KiB where zlib takes 0.4.

    crc32(data, value=0) -> int

data is bytes-like; value is the CRC-32 of what is before it. A worker of Spark may have no
zlib-ng: zlib takes the sum there.
"""

from __future__ import annotations

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
