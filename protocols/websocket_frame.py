"""WebSocket for all protocols that speak it: frame boundaries (RFC 6455, 5.2), and the key of the handshake (4.2.2).

Bytes pass through here before they are decoded, so that a length that is too large is refused when it arrives.
"""

from __future__ import annotations

import binascii
from hashlib import sha1
from typing import Final, final

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Payload of one frame, which may hold several packets of the protocol inside."""
FRAMES_PER_TURN_MAX: Final = 128
"""Frames of one client that are handled in one turn of the loop."""
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16


@final
class FrameOutline:
    """Follows the bytes of a client from the end of its handshake on.

    fault   True: a frame is above FRAME_BYTES_MAX; nothing more is followed
    _head   part of a frame header
    _skip   bytes to skip to the next frame header
    """

    __slots__ = ("_head", "_skip", "fault")

    def __init__(self) -> None:
        self.fault = False
        self._head = b""
        self._skip = 0

    def cut(self, data: bytes) -> list[bytes]:
        """`data` in pieces of at most FRAMES_PER_TURN_MAX frames each. Sets `fault`; the pieces end before that frame then."""
        pieces: list[bytes] = []
        known = len(self._head)
        whole = self._head + data if known else data
        self._head = b""
        at, start, frames = self._skip, 0, 0
        size = len(whole)
        while at + 2 <= size:
            length = whole[at + 1] & 0x7F
            extra = 2 if length == 126 else 8 if length == 127 else 0
            if at + 2 + extra > size:
                break
            if extra:
                length = int.from_bytes(whole[at + 2 : at + 2 + extra], "big")
            if length > FRAME_BYTES_MAX:
                self.fault = True
                end = max(at - known, start)
                return [*pieces, data[start:end]] if end > start else pieces
            at += 2 + extra + (4 if whole[at + 1] & 0x80 else 0) + length
            frames += 1
            if frames == FRAMES_PER_TURN_MAX and at < size:
                pieces.append(data[start : at - known])
                start, frames = at - known, 0
        if at < size:
            self._head = whole[at:]
            self._skip = 0
        else:
            self._skip = at - size
        pieces.append(data[start:])
        return pieces


def is_key(value: bytes) -> bool:
    """True for a Sec-WebSocket-Key: 16 bytes in base64."""
    try:
        return len(binascii.a2b_base64(value, strict_mode=True)) == _KEY_BYTES
    except binascii.Error:
        return False


def accept(key: bytes) -> bytes:
    """The value of Sec-WebSocket-Accept for a Sec-WebSocket-Key."""
    return binascii.b2a_base64(sha1(key + _GUID, usedforsecurity=False).digest(), newline=False)
