"""Frame boundaries of an HTTP/2 byte stream, and counts of frame types (RFC 9113, sections 3.4 and 4.1).

Bytes pass through here before the engine buffers anything, so that the limits hold for either engine.
"""

from __future__ import annotations

from typing import Final, final

from domain.limits import SECOND_NS

DATA: Final = 0x0
HEADERS: Final = 0x1
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PREFACE_BYTES: Final = 24
FRAME_HEAD_BYTES: Final = 9
FRAME_BYTES_MAX: Final = 16_384
"""Payload of one frame: the initial value of SETTINGS_MAX_FRAME_SIZE, which this node does not raise (RFC 9113, 6.5.2)."""
CONTINUATIONS_MAX: Final = 64
"""CONTINUATION frames of one header block."""
HEADER_BLOCK_BYTES_MAX: Final = 64 * 1024
"""Compressed bytes of one header block."""
TURN_WEIGHT_MAX: Final = 384
"""Weight of the frames that one turn handles of a connection: a request weighs 4, another frame 1, large ones more. 64 KiB of
gRPC calls of 1 KB weigh 285."""
STREAMS_MAX: Final = 128
"""SETTINGS_MAX_CONCURRENT_STREAMS."""
BUDGET_NS: Final = 10 * SECOND_NS
"""Time in which floods are counted."""
CONTROL_FRAMES_MAX: Final = 1_000
"""Control frames in BUDGET_NS without any request."""
RESETS_MAX: Final = 200
"""RST_STREAM frames in BUDGET_NS without any response."""
FRAME_SIZE_ERROR: Final = 0x6
ENHANCE_YOUR_CALM: Final = 0xB


@final
class FrameOutline:
    """Follows the bytes of a peer from its preface on.

    work             frames that carry requests: HEADERS, and DATA that is not empty or ends a stream
    control          all other frames, RST_STREAM and empty DATA included
    inside           True: a frame, a header block or the preface is incomplete
    acknowledged     True: a SETTINGS frame with ACK has begun, which must answer this node's SETTINGS
    control_base     `control` when the time began in which floods are counted, and so `resets_base`
    cuts             positions in the bytes of the last `follow` at which the frames of a turn end
    _skip            bytes to skip to the next frame header
    _head            part of a frame header
    _open            True: a header block is incomplete
    _since           monotonic ns from which floods are counted; the values then are in the fields ending in `_base`
    """

    __slots__ = (
        "_block", "_continuations", "_finished_base", "_head", "_open", "_sent_base", "_since", "_skip", "_work_base",
        "acknowledged", "control", "control_base", "cuts", "inside", "resets", "resets_base", "work",
    )  # fmt: skip

    def __init__(self, now: int) -> None:
        self._skip: int = PREFACE_BYTES
        self._head: bytes = b""
        self._open: bool = False
        self._continuations: int = 0
        self._block: int = 0
        self.cuts: list[int] = []
        self.work: int = 0
        self.control: int = 0
        self.resets: int = 0
        self.inside: bool = True
        self.acknowledged: bool = False
        self.control_base: int = 0
        self.resets_base: int = 0
        self._work_base: int = 0
        self._finished_base: int = 0
        self._sent_base: int = 0
        self._since: int = now

    def is_flood(self, now: int, finished: int, sent: int, uploads: int) -> bool:
        """True when control frames or resets exceed the number that the requests of the last ten seconds allow.

        `finished`, `sent`: responses and bytes of output of this connection so far; `uploads`: bytes of incomplete requests.
        """
        if now - self._since > BUDGET_NS:
            self._since = now
            self.control_base, self._work_base, self.resets_base = self.control, self.work, self.resets
            self._finished_base, self._sent_base = finished, sent
            return False
        finished -= self._finished_base
        if self.resets - self.resets_base > RESETS_MAX + finished:
            return True
        earned = 8 * min(self.work - self._work_base, finished + STREAMS_MAX) + (sent - self._sent_base) // 512
        earned += uploads // 512 + CONTROL_FRAMES_MAX
        return self.control - self.control_base > earned

    def follow(self, data: bytes) -> int:
        """Take the next bytes -> 0, or the error code with which to close the connection.

        FRAME_SIZE_ERROR: a frame of more than 16,384 bytes, which this node's SETTINGS do not allow.
        ENHANCE_YOUR_CALM: a header block of more than 64 KiB, or with more than 64 CONTINUATION frames.
        """
        at = self._skip
        self.cuts = []
        known = len(self._head)
        if known:
            data = self._head + data
            self._head = b""
        size = len(data)
        weight = 0
        while at + FRAME_HEAD_BYTES <= size:
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            kind = data[at + 3]
            flags = data[at + 4]
            at += FRAME_HEAD_BYTES + length
            if length > FRAME_BYTES_MAX:
                return FRAME_SIZE_ERROR
            if kind == DATA:
                weight += 1 + (length >> 12)
                if length > 0 or flags & END_STREAM:
                    self.work += 1
                else:
                    self.control += 1
            elif kind == HEADERS:
                weight += 4 + (length >> 4)
                self.work += 1
                self._open = not flags & END_HEADERS
                self._continuations = 0
                self._block = length
            elif kind == CONTINUATION:
                weight += 1 + (length >> 4)
                self._continuations += 1
                self._block += length
                if self._continuations > CONTINUATIONS_MAX or self._block > HEADER_BLOCK_BYTES_MAX:
                    return ENHANCE_YOUR_CALM
                self._open = not flags & END_HEADERS
            else:
                weight += 1 + (length >> 4)
                self.control += 1
                if kind == RST_STREAM:
                    self.resets += 1
                elif kind == SETTINGS and flags & ACK:
                    self.acknowledged = True
            if weight >= TURN_WEIGHT_MAX and at < size:
                self.cuts.append(at - known)
                weight = 0
        if at < size:
            self._head = data[at:]
            self._skip = 0
            self.inside = True
        else:
            self._skip = at - size
            self.inside = at > size or self._open
        return 0


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` cut at these positions."""
    found: list[bytes] = []
    start: int = 0
    for cut in cuts:
        found.append(data[start:cut])
        start = cut
    found.append(data[start:])
    return found


def goaway_frame(last_stream: int, code: int) -> bytes:
    """A GOAWAY frame (RFC 9113, 6.8). It goes between two frames of an engine, which knows nothing of it and continues."""
    return b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + last_stream.to_bytes(4, "big") + code.to_bytes(4, "big")
