"""Answers of a node that does not serve CoAP to datagrams.

A confirmable request gets a piggybacked 5.03 (RFC 7252, sections 5.2.1 and 5.9.3.4): its client retries, here or elsewhere. All
other confirmable messages, malformed ones too, are rejected by a Reset (section 4.2).
"""

from __future__ import annotations

from typing import Final

from protocols.coap import status
from protocols.coap.message import option
from protocols.coap.message.message import ACK, CON, EMPTY, HEADER_BYTES, RST, UNAVAILABLE, decode, empty, encode, join, uint

_RETRY: Final = join([(option.MAX_AGE, uint(status.RETRY_AFTER_S))])


def refusal(data: bytes) -> bytes:
    """5.03 with Max-Age for a confirmable request, a Reset for another confirmable message, b"" for any other datagram.

    The answer is never longer than `data`: a request without options has no room for Max-Age, and gets a Reset too.
    """
    if len(data) < HEADER_BYTES or data[0] >> 6 != 1 or data[0] >> 4 & 3 != CON:
        return b""
    packet = decode(data)
    if packet is not None and packet.code != EMPTY and packet.code >> 5 == 0:
        said = encode(ACK, UNAVAILABLE, packet.mid, packet.token, _RETRY, b"")
        if len(said) <= len(data):
            return said
    return empty(RST, data[2] << 8 | data[3])
