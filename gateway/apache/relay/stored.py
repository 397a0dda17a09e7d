"""Replies of brokers to queries of single messages, rewritten to the addresses at which clients reach the brokers here.

Tools compare the store host of a message with the address of its broker, and send requests about the message there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from domain.address import host_bytes, host_text
from domain.message.record import RECORD_BYTES_MIN, Record, check, stored_at
from domain.octets import uint32
from protocols.remoting import codes
from protocols.remoting.relayed.frame_slice import FrameSlice

QUERIES: Final = frozenset({codes.QUERY_MESSAGE, codes.VIEW_MESSAGE})
REWRITTEN: Final = QUERIES | {codes.PULL}
"""Request codes whose replies have records that tools may look at."""
TOOLS: Final = "TOOLS_CONSUMER"
"""The group of tools that pull messages; other readers pull many at a time."""


def looked_at(frame: FrameSlice) -> bool:
    """True for a request whose reply has records for a tool: a query, or the pull of one message by its offset."""
    code = frame.code
    if code == codes.PULL:
        return frame.field("maxMsgNums") == "1" and frame.field("consumerGroup") == TOOLS
    return code in QUERIES


def rewritten(body: bytes, host: str, ports: Mapping[str, int]) -> bytes | None:
    """The records of a reply as stored at `host`, at the port of their broker in `ports` (its address -> port).

    None: the reply stays as it is, since it is no sequence of records, since none of them is of a broker in `ports`, or since
    `host` is a name, for which a record has no place. A record that fails its check stays as it is.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return None
    found: list[bytes] = []
    changed = False
    at = 0
    while at < len(body):
        size = uint32(body, at) if len(body) - at >= RECORD_BYTES_MIN else 0
        if size < RECORD_BYTES_MIN or size > len(body) - at:
            return None
        record = body[at : at + size]
        port = ports.get(host_text(Record(record).store_host)) if check(record) else None
        if port is not None:
            record = stored_at(record, host_bytes(host, port))
            changed = True
        found.append(record)
        at += size
    return b"".join(found) if changed else None
