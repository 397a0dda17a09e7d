"""Recognition of remoting from the first bytes of a connection."""

from __future__ import annotations

from domain import limits


def begins(head: bytes) -> bool | None:
    """Whether `head` begins a frame: length of at most 16 MiB, serialize type 0 or 1, header length within the frame.

    None: more bytes are needed.
    """
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
