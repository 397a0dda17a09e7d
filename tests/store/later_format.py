"""Batches as a later version of the program might write them."""

from __future__ import annotations

import struct
import zlib

from store.log import batch

VERSION = 3
MORE_BYTES = 16
"""By what the header of the later version is longer."""


def later(data: bytes, position: int, more: int = MORE_BYTES) -> bytes:
    """The batch at the start of `data` with a header of VERSION, which is longer, and all that follows it."""
    found = batch.header(data, position)
    assert found is not None
    facts = bytearray(data[12 : batch.HEADER_BYTES - 4])
    facts[40 - 12 : 42 - 12] = struct.pack(">H", VERSION)
    facts += b"\x07" * more
    own = zlib.crc32(facts)
    body = data[batch.HEADER_BYTES : found.size]
    front = struct.pack(">III", batch.HEADER_BYTES + more, batch.MAGIC_BATCH, zlib.crc32(body, own))
    return front + facts + struct.pack(">I", own) + body + data[found.size :]
