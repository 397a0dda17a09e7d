"""The contract of an HTTP/2 engine: the server side of one connection, bytes in, events out, without I/O or a clock.

Its SETTINGS allow extended CONNECT (RFC 8441).

Two engines keep it, `engine_nghttp2` (libnghttp2, by a thin binding) and `engine_h2` (hyper-h2); the same tests run on both.
"""

from __future__ import annotations

from typing import Final, Protocol

from protocols.http2.application import Headers, Reply

EVENT_HEADERS: Final = 1
"""(EVENT_HEADERS, stream, header fields, whether the request ends with them)"""
EVENT_DATA: Final = 2
"""(EVENT_DATA, stream, bytes, False)"""
EVENT_ENDED: Final = 3
"""(EVENT_ENDED, stream, None, True): the request is complete"""
EVENT_RESET: Final = 4
"""(EVENT_RESET, stream, error code, True): the stream ended, by either side, before its response did"""
EVENT_FATAL: Final = 5
"""(EVENT_FATAL, 0, error code, True): the connection is over; what `outgoing` still has is its goodbye"""

EngineEvent = tuple[int, int, object, bool]

NO_ERROR: Final = 0x0
PROTOCOL_ERROR: Final = 0x1
INTERNAL_ERROR: Final = 0x2
FLOW_CONTROL_ERROR: Final = 0x3
SETTINGS_TIMEOUT: Final = 0x4
REFUSED_STREAM: Final = 0x7
CANCEL: Final = 0x8
ENHANCE_YOUR_CALM: Final = 0xB

STREAM_WINDOW_BYTES: Final = 1024 * 1024
CONNECTION_WINDOW_BYTES: Final = 8 * 1024 * 1024
HEADER_LIST_BYTES_MAX: Final = 64 * 1024


class Engine(Reply, Protocol):
    """One connection. Nothing raises for what a peer sends; calls for a stream that is gone are ignored.

    What arrives is given back to the peer's windows at once, except on streams that are paused: their own window is kept, and
    so is no more than it; the connection's is given back, since it is the other streams' too (RFC 9113, section 5.2).
    A response that ends before its request does is followed by RST_STREAM(NO_ERROR) (RFC 9113, section 8.1).
    """

    held: int
    """Body bytes given to `send` that are not in `outgoing` yet, over all streams. `pending` knows real streams alone here."""

    def receive(self, data: bytes) -> list[EngineEvent]:
        """The next bytes of the peer, from its preface on -> what they mean, in order."""

    def outgoing(self) -> bytes:
        """All that can be written now, as the peer's windows allow."""

    def goaway(self, code: int) -> None:
        """Say goodbye with an error code. Nothing that arrives later is looked at."""

    def ping(self) -> None:
        """Ask whether the peer is there. Its answer shows only in that bytes arrive."""

    def stalled(self) -> list[tuple[int, int]]:
        """(stream, bytes) of all streams with bytes that the peer's windows hold back."""


class EngineFactory(Protocol):
    """What both engine modules offer as `Session`."""

    def __call__(self, streams_max: int) -> Engine:
        """A new connection that advertises `streams_max` and has its SETTINGS in `outgoing`."""


__all__ = [
    "CANCEL", "CONNECTION_WINDOW_BYTES", "ENHANCE_YOUR_CALM", "EVENT_DATA", "EVENT_ENDED", "EVENT_FATAL", "EVENT_HEADERS",
    "EVENT_RESET", "FLOW_CONTROL_ERROR", "HEADER_LIST_BYTES_MAX", "INTERNAL_ERROR", "NO_ERROR", "PROTOCOL_ERROR",
    "REFUSED_STREAM", "SETTINGS_TIMEOUT", "STREAM_WINDOW_BYTES", "Engine", "EngineEvent", "EngineFactory", "Headers",
]  # fmt: skip
