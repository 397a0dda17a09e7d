"""Message expiry: the property HG_EXPIRE_MS holds the instant (epoch milliseconds) from which a message is not delivered.

It stores MQTT's message expiry interval, `ttl_ms` of CoAP and HTTP, and the CloudEvents attribute `expirytime`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain.message.property import HG_BYTES, HG_EXPIRE_MS_START, find, has
from domain.message.record import Record
from domain.octets import uint32

SMALL_BYTES: Final = 2_048
_FIRST_BYTE: Final = HG_BYTES[0]


def has_expired(data: bytes, wall_ms: int) -> bool:
    """True when the record's HG_EXPIRE_MS is at or before `wall_ms`. Never raises; an illegal value means never."""
    # Properties come last. In a small record it is quicker to search the body too than to find out where it ends.
    start = Record(data).properties_at if len(data) > SMALL_BYTES else 0
    if data.find(HG_EXPIRE_MS_START, start) < 0:
        return False
    return is_over(Record(data).properties, wall_ms)


def is_over(stored: bytes, wall_ms: int) -> bool:
    """True when a message with the properties `stored` has expired at `wall_ms`."""
    expire = find(stored, HG_EXPIRE_MS_START)
    return expire.isdigit() and len(expire) < 19 and int(expire) <= wall_ms


def unexpired(records: Sequence[bytes], wall_ms: int) -> tuple[list[bytes], bool]:
    """(the records that have not expired at `wall_ms`, True when one of these has a property whose name starts with `HG_`)."""
    kept: list[bytes] = []
    marked = False
    for data in records:
        # Properties are last in a record. The length of its body is at byte 84 when hosts have 4 bytes.
        tail = data[88 + uint32(data, 84) :] if data[39] & 0x30 == 0 else data
        # One byte is found in a tenth of the time that a name takes, and most properties have none like it.
        if _FIRST_BYTE in tail and has(tail, HG_BYTES):
            if has_expired(data, wall_ms):
                continue
            marked = True
        kept.append(data)
    return kept, marked
