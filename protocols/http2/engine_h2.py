"""The HTTP/2 engine without a compiler, by hyper-h2. Its interface is in protocols/http2/engine.py."""

from __future__ import annotations

from collections import deque
from typing import final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

from protocols.http2.engine import (
    CONNECTION_WINDOW_BYTES,
    EVENT_DATA,
    EVENT_ENDED,
    EVENT_FATAL,
    EVENT_HEADERS,
    EVENT_RESET,
    HEADER_LIST_BYTES_MAX,
    NO_ERROR,
    STREAM_WINDOW_BYTES,
    EngineEvent,
)
from protocols.http2.head import Headers

_DEFAULT_WINDOW_BYTES = 65_535


@final
class _Stream:
    """The response of one stream, and whether its request is complete.

    withheld    bytes of the stream's window that are not returned while it is paused; -1: not paused
    ended       True: `send` or `trailers` has ended the response
    pending     bytes in `chunks`
    chunks      parts of the body that are not in frames yet
    """

    __slots__ = ("chunks", "complete", "ended", "pending", "responded", "trailers", "withheld")

    def __init__(self) -> None:
        self.responded = False
        self.withheld = -1
        self.ended = False
        self.complete = False
        self.pending = 0
        self.chunks: deque[bytes] = deque()
        self.trailers: Headers | None = None


@final
class _Connection(H2Connection):
    """hyper-h2, but a peer may send GOAWAY(NO_ERROR) and complete its open streams (RFC 9113, section 6.8).

    hyper-h2 itself closes the connection at a GOAWAY, and treats further frames of open streams as an error.
    """

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        if frame.error_code != NO_ERROR:
            return super()._receive_goaway_frame(frame)
        return [], [ConnectionTerminated()]


@final
class Session:
    """One connection.

    held               bytes of all streams that are not in frames yet
    _closed            True: the connection is closed, bytes of the peer are ignored
    _goaway_received   True: the peer has sent GOAWAY; the connection is closed with its last stream
    _returned          bytes of paused streams to return to the connection's window
    _streams           stream id -> a response that is not complete
    _waiting           streams with data for frames
    """

    __slots__ = ("_closed", "_connection", "_events", "_goaway_received", "_returned", "_streams", "_waiting", "held")

    def __init__(self, streams_max: int) -> None:
        self.held = 0
        self._closed = False
        self._goaway_received = False
        self._returned = 0
        self._events: list[EngineEvent] = []
        self._streams: dict[int, _Stream] = {}
        self._waiting: dict[int, _Stream] = {}
        connection = _Connection(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        connection.decoder.max_header_list_size = HEADER_LIST_BYTES_MAX
        connection.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_LIST_BYTES_MAX,
                SettingCodes.ENABLE_CONNECT_PROTOCOL: 1,
            },
        )
        connection.initiate_connection()
        # Not in the first SETTINGS: exceeding a limit closes the connection only after the peer has acknowledged it.
        connection.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: streams_max})
        connection.increment_flow_control_window(CONNECTION_WINDOW_BYTES - _DEFAULT_WINDOW_BYTES)
        self._connection = connection

    def receive(self, data: bytes) -> list[EngineEvent]:
        """The next bytes of the peer -> events, in order."""
        events, self._events = self._events, []
        if self._closed:
            return []
        try:
            for event in self._connection.receive_data(data):
                self._translate(event, events)
        except ProtocolError as error:
            self._closed = True
            events.append((EVENT_FATAL, 0, int(error.error_code), True))
            return events
        if self._returned and not self._closed:
            self._connection.increment_flow_control_window(self._returned)
        self._returned = 0
        self._flush()
        if self._goaway_received and not self._streams and not self._closed:
            self._closed = True
            events.append((EVENT_FATAL, 0, NO_ERROR, True))
        return events

    def outgoing(self) -> bytes:
        """All bytes that can be written now."""
        if self._waiting:
            self._flush()
        return self._connection.data_to_send()

    def respond(self, stream_id: int, headers: Headers, end: bool) -> None:
        """Send response header fields."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.responded or self._closed:
            return
        stream.responded = True
        self._connection.send_headers(stream_id, headers, end_stream=end)
        if end:
            self._response_ended(stream_id, stream)

    def send(self, stream_id: int, data: bytes, end: bool) -> None:
        """Send a part of the body."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.ended:
            return
        if data:
            stream.chunks.append(data)
            stream.pending += len(data)
            self.held += len(data)
        stream.ended = end
        self._waiting[stream_id] = stream

    def trailers(self, stream_id: int, headers: Headers) -> None:
        """End the response with trailer fields."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.ended:
            return
        stream.trailers = headers
        stream.ended = True
        self._waiting[stream_id] = stream

    def reset(self, stream_id: int, code: int) -> None:
        """Reset the stream."""
        stream = self._forget(stream_id)
        if stream is not None and not self._closed:
            self._connection.reset_stream(stream_id, code)

    def pending(self, stream_id: int) -> int:
        """Bytes of one stream that are not in `outgoing` yet."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.pending

    def pause(self, stream_id: int) -> None:
        """Stop returning the window of a stream."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.withheld < 0:
            stream.withheld = 0

    def resume(self, stream_id: int) -> None:
        """Return the window withheld since `pause`."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.withheld < 0:
            return
        withheld, stream.withheld = stream.withheld, -1
        if withheld and not stream.complete and not self._closed:
            self._connection.increment_flow_control_window(withheld, stream_id)

    def goaway(self, code: int) -> None:
        """Send GOAWAY."""
        if not self._closed:
            self._closed = True
            self._connection.close_connection(code)

    def ping(self) -> None:
        """Send PING."""
        if not self._closed:
            self._connection.ping(bytes(8))

    def stalled(self) -> list[tuple[int, int]]:
        """(stream, bytes) of streams with bytes that the peer's windows hold back."""
        return [(stream_id, stream.pending) for stream_id, stream in self._streams.items() if stream.pending > 0]

    def _translate(self, event: object, events: list[EngineEvent]) -> None:
        if isinstance(event, RequestReceived):
            stream = self._streams[event.stream_id] = _Stream()
            stream.complete = event.stream_ended is not None
            events.append((EVENT_HEADERS, event.stream_id, list(event.headers), stream.complete))
        elif isinstance(event, DataReceived):
            if event.data:
                events.append((EVENT_DATA, event.stream_id, event.data, False))
            paused = self._streams.get(event.stream_id)
            if paused is not None and paused.withheld >= 0:
                paused.withheld += event.flow_controlled_length
                self._returned += event.flow_controlled_length
            elif event.flow_controlled_length:
                self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            ended = self._streams.get(event.stream_id)
            if ended is not None and not ended.complete:
                ended.complete = True
                events.append((EVENT_ENDED, event.stream_id, None, True))
        elif isinstance(event, StreamReset):
            if self._forget(event.stream_id) is not None:
                events.append((EVENT_RESET, event.stream_id, int(event.error_code or 0), True))
        elif isinstance(event, ConnectionTerminated):
            if event.error_code:
                self._closed = True
                events.append((EVENT_FATAL, 0, NO_ERROR, True))
            else:
                self._goaway_received = True

    def _flush(self) -> None:
        """Put pending data into frames, as the windows allow."""
        for stream_id, stream in list(self._waiting.items()):
            if self._closed:
                return
            self._send(stream_id, stream)

    def _send(self, stream_id: int, stream: _Stream) -> None:
        connection = self._connection
        chunks = stream.chunks
        while chunks:
            room = min(connection.local_flow_control_window(stream_id), connection.max_outbound_frame_size)
            if room <= 0:
                return
            piece = chunks.popleft()
            if len(piece) > room:
                chunks.appendleft(piece[room:])
                piece = piece[:room]
            stream.pending -= len(piece)
            self.held -= len(piece)
            connection.send_data(stream_id, piece, stream.ended and not chunks and stream.trailers is None)
            if not chunks and stream.ended and stream.trailers is None:
                self._response_ended(stream_id, stream)
                return
        del self._waiting[stream_id]
        if stream.ended:
            if stream.trailers is None:
                connection.end_stream(stream_id)
            else:
                connection.send_headers(stream_id, stream.trailers, end_stream=True)
            self._response_ended(stream_id, stream)

    def _response_ended(self, stream_id: int, stream: _Stream) -> None:
        """END_STREAM is in a frame. An incomplete request is reset with NO_ERROR (RFC 9113, section 8.1)."""
        self._forget(stream_id)
        if not stream.complete:
            self._connection.reset_stream(stream_id, NO_ERROR)

    def _forget(self, stream_id: int) -> _Stream | None:
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            self.held -= stream.pending
            self._waiting.pop(stream_id, None)
        return stream
