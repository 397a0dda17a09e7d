"""How a connection of remoting begins."""

from __future__ import annotations

from domain import limits


def begins(head: bytes) -> bool | None:
    """A frame length of at most 16 MiB, then serialize type 0 or 1 and a header length within the frame."""
    if head[0] > 0x01:
        return False
    if len(head) >= 4:
        frame = int.from_bytes(head[:4], "big")
        if not 4 <= frame <= limits.REMOTING_FRAME_BYTES_MAX:
            return False
        if len(head) >= 5 and head[4] > 1:
            return False
        if len(head) >= 8:
            return int.from_bytes(head[5:8], "big") <= frame - 4
    return None
