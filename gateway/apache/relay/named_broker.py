"""The server that a relayed request names, by its code or by the broker's name in it, where the client's port does not."""

from __future__ import annotations

from typing import Final

from protocols.remoting import codes
from protocols.remoting.relayed.frame_slice import FrameSlice
from protocols.remoting.wire import fastjson

FROM_BROKERS: Final = frozenset({103, 104, 322, 904})
"""Requests of brokers to name servers: REGISTER_BROKER, UNREGISTER_BROKER, QUERY_DATA_VERSION, BROKER_HEARTBEAT."""
TO_ALL_NAMESERVERS: Final = frozenset({100, 102, 205, 216, 217, 318, 327})
"""Changes at name servers: tools send them to each that they know, and they know this gateway alone."""
TO_NAMESERVER: Final = frozenset({*TO_ALL_NAMESERVERS, 101, 105, 106, 206, 219, 224, 304, 311, 312, 313, 319, 901})
TO_ALL_BROKERS: Final = frozenset({codes.HEARTBEAT, codes.UNREGISTER_CLIENT})
TO_ANY_BROKER: Final = frozenset({codes.GET_MEMBERS, codes.QUERY_ASSIGNMENT, codes.CHECK_CLIENT})
"""Requests that each broker answers alike, since clients register at all of them."""
_IN_BODY: Final = frozenset({codes.LOCK_QUEUES, codes.UNLOCK_QUEUES, codes.BATCH_ACK})
_SHORT_NAMES: Final = frozenset({codes.SEND_V2, codes.SEND_BATCH, 325})
V4_9_5: Final = 403
"""MQVersion ordinal of the first Java client that names the broker in its requests."""
_BODY_BYTES_MAX: Final = 256 * 1024


def named_broker(frame: FrameSlice) -> str:
    """The broker that a request names; "": none."""
    name = frame.field("bname")
    if name:
        return name
    if frame.code in _SHORT_NAMES:
        return frame.field("n")
    if frame.code in _IN_BODY:
        return _in_body(frame.body)
    return frame.field("brokerName")


def _in_body(body: bytes) -> str:
    """The broker of a BatchAck body, or of the first queue of a LockBatch body."""
    if len(body) > _BODY_BYTES_MAX:
        return ""
    try:
        found = fastjson.loads(body)
    except fastjson.DialectError:
        return ""
    if not isinstance(found, dict):
        return ""
    queues = found.get("mqSet")
    first = queues[0] if isinstance(queues, list) and queues else found
    name = first.get("brokerName") if isinstance(first, dict) else None
    return name if isinstance(name, str) else ""


def names_brokers(frame: FrameSlice) -> bool:
    """True when the client that sends a request names the broker in those for brokers: Java since 4.9.5."""
    return frame.java_version() >= V4_9_5
