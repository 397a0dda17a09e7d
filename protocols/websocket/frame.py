"""Frame boundaries of a WebSocket byte stream (RFC 6455, section 5.2): lengths, and how much one turn handles.

Bytes pass through here before they are decoded, so that a length that is too large is refused when it arrives.
"""

from __future__ import annotations

from typing import Final, final

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Payload of one frame, which may hold several packets of the protocol inside."""
FRAMES_PER_TURN_MAX: Final = 128
"""Frames of one client that are handled in one turn of the loop."""
_HEAD_BYTES_MAX: Final = 14


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
