"""The outline of an HTTP/2 byte stream: where frames begin and end, and what kinds they are (RFC 9113, sections 3.4 and 4.1).

An engine understands frames; this only counts them, before the engine sees them, so that limits hold whatever the engine does.
"""

from __future__ import annotations

from typing import Final, final

DATA: Final = 0x0
HEADERS: Final = 0x1
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PREFACE_BYTES: Final = 24
FRAME_HEAD_BYTES: Final = 9
FRAME_BYTES_MAX: Final = 16_384
"""Payload of one frame: the initial value of SETTINGS_MAX_FRAME_SIZE, which this node never raises (RFC 9113, 6.5.2)."""
CONTINUATIONS_MAX: Final = 64
"""CONTINUATION frames of one header block."""
HEADER_BLOCK_BYTES_MAX: Final = 64 * 1024
"""Bytes of one header block, before they are decompressed."""
FRAME_SIZE_ERROR: Final = 0x6
ENHANCE_YOUR_CALM: Final = 0xB


@final
class FrameOutline:
    """Follows one direction of one connection from its preface on.

    work      frames that carry requests: HEADERS, and DATA that is not empty or ends a stream
    control   all others, resets and empty DATA among them
    resets    RST_STREAM frames
    inside    True: a frame, a header block or the preface has begun and is not complete
    settled   True: a SETTINGS frame has begun to arrive, as it must after the preface
    """

    __slots__ = ("_block", "_continuations", "_head", "_open", "_skip", "control", "inside", "resets", "settled", "work")

    def __init__(self) -> None:
        self._skip: int = PREFACE_BYTES
        self._head: bytes = b""
        self._open: bool = False
        self._continuations: int = 0
        self._block: int = 0
        self.work: int = 0
        self.control: int = 0
        self.resets: int = 0
        self.inside: bool = True
        self.settled: bool = False

    def follow(self, data: bytes) -> int:
        """Take the next bytes -> 0, or the error that ends the connection.

        FRAME_SIZE_ERROR: a frame announces more than 16,384 bytes, which our SETTINGS never allowed.
        ENHANCE_YOUR_CALM: a header block is longer than 64 KiB or has more than 64 CONTINUATION frames.
        """
        at = self._skip
        if self._head:
            data = self._head + data
            self._head = b""
        size = len(data)
        while at + FRAME_HEAD_BYTES <= size:
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            kind = data[at + 3]
            flags = data[at + 4]
            at += FRAME_HEAD_BYTES + length
            if length > FRAME_BYTES_MAX:
                return FRAME_SIZE_ERROR
            if kind == DATA:
                if length > 0 or flags & END_STREAM:
                    self.work += 1
                else:
                    self.control += 1
            elif kind == HEADERS:
                self.work += 1
                self._open = not flags & END_HEADERS
                self._continuations = 0
                self._block = length
            elif kind == CONTINUATION:
                self._continuations += 1
                self._block += length
                if self._continuations > CONTINUATIONS_MAX or self._block > HEADER_BLOCK_BYTES_MAX:
                    return ENHANCE_YOUR_CALM
                self._open = not flags & END_HEADERS
            else:
                self.control += 1
                if kind == RST_STREAM:
                    self.resets += 1
                elif kind == SETTINGS:
                    self.settled = True
        if at < size:
            self._head = data[at:]
            self._skip = 0
            self.inside = True
        else:
            self._skip = at - size
            self.inside = at > size or self._open
        return 0
