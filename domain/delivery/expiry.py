"""Message expiry: the property HG_EXPIRE_MS holds the instant (epoch milliseconds) from which a message is not delivered.

It stores MQTT's message expiry interval, `ttl_ms` of CoAP and HTTP, and the CloudEvents attribute `expirytime`.
"""

from __future__ import annotations

from typing import Final

from domain.property import HG_EXPIRE_MS_START, find
from domain.record import Record

SMALL_BYTES: Final = 2_048


def has_expired(data: bytes, wall_ms: int) -> bool:
    """True when the record's HG_EXPIRE_MS is at or before `wall_ms`. Never raises; an illegal value means never."""
    # Properties come last. In a small record it is quicker to search the body too than to find out where it ends.
    start = Record(data).properties_at if len(data) > SMALL_BYTES else 0
    if data.find(HG_EXPIRE_MS_START, start) < 0:
        return False
    expire = find(Record(data).properties, HG_EXPIRE_MS_START)
    return expire.isdigit() and len(expire) < 19 and int(expire) <= wall_ms
