"""The interface of HTTP/2 engines: the server side of one connection, bytes in, events out, without I/O or a clock.

An engine's SETTINGS allow extended CONNECT (RFC 8441).

There are two, `engine_nghttp2` (a thin binding of libnghttp2) and `engine_h2` (hyper-h2); the same tests run on both.
"""

from __future__ import annotations

from typing import Final, Protocol

from protocols.http2.application import StreamReply

EVENT_HEADERS: Final = 1
"""(EVENT_HEADERS, stream, header fields, True when the request ends with them)"""
EVENT_DATA: Final = 2
"""(EVENT_DATA, stream, bytes, False)"""
EVENT_ENDED: Final = 3
"""(EVENT_ENDED, stream, None, True): the request is complete"""
EVENT_RESET: Final = 4
"""(EVENT_RESET, stream, error code, True): either side has reset the stream before its response was complete"""
EVENT_FATAL: Final = 5
"""(EVENT_FATAL, 0, error code, True): the connection is closed; `outgoing` may still have a GOAWAY"""

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


class Engine(StreamReply, Protocol):
    """One connection. Its methods never raise for bytes of a peer; calls for a stream that has ended are ignored.

    Received bytes are returned to the peer's windows at once. For a paused stream the window of the stream is withheld, and
    that of the connection is returned, since other streams share it (RFC 9113, section 5.2).
    A response that is complete before its request is followed by RST_STREAM(NO_ERROR) (RFC 9113, section 8.1).
    """

    held: int
    """Bytes passed to `send` that are not in `outgoing` yet, over all streams. `pending` takes no stream 0 here."""

    def receive(self, data: bytes) -> list[EngineEvent]:
        """The next bytes of the peer, from its preface on -> events, in order."""

    def outgoing(self) -> bytes:
        """All bytes that can be written now, as the peer's windows allow."""

    def goaway(self, code: int) -> None:
        """Send GOAWAY with an error code. Bytes that arrive later are ignored."""

    def ping(self) -> None:
        """Send PING. Any bytes that arrive afterwards show that the peer is alive."""

    def stalled(self) -> list[tuple[int, int]]:
        """(stream, bytes) of all streams with bytes that the peer's windows hold back."""


class EngineFactory(Protocol):
    """The class `Session` of both engine modules."""

    def __call__(self, streams_max: int) -> Engine:
        """A new connection, with its SETTINGS in `outgoing`. `streams_max`: SETTINGS_MAX_CONCURRENT_STREAMS."""
