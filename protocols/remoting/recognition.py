"""Recognition of remoting from the first bytes of a connection."""

from __future__ import annotations

from domain import limits
from domain.refusal import TLS_ONLY
from protocols.remoting import codes
from protocols.remoting.wire.frame import FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_RESPONSE


def begins(head: bytes) -> bool | None:
    """True when `head` begins a frame: length of at most 16 MiB, serialize type 0 or 1, header length within the frame.

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


def without_tls(data: bytes) -> bytes:
    """The replies to the requests on a port that takes TLS only: NO_PERMISSION, which SDKs show and do not try again."""
    return b"".join(
        encode(codes.NO_PERMISSION, frame.opaque, flag=FLAG_RESPONSE, remark=TLS_ONLY, serialize=frame.serialize)
        for frame in FrameDecoder().feed(data)
        if not frame.response and not frame.oneway
    )
