"""What a node that does not serve CoAP says to a datagram: a Reset, which ends the exchange at once (RFC 7252, section 4.2)."""

from __future__ import annotations

from protocols.coap.message import CON, HEADER_BYTES, RST, empty


def refusal(data: bytes) -> bytes:
    """The Reset for a confirmable message; b"" for all else, which its sender repeats or gives up by itself."""
    if len(data) < HEADER_BYTES or data[0] >> 6 != 1 or data[0] >> 4 & 3 != CON:
        return b""
    return empty(RST, data[2] << 8 | data[3])
