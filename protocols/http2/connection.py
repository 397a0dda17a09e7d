"""One HTTP/2 connection: passes streams to applications, and limits the cost of a hostile or unresponsive peer.

The engine handles frames and windows, applications handle requests; the connection handles deadlines, limits and routing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast, final

from domain import limits
from domain.command import Command, Disconnected
from domain.event import Event
from domain.mqtt_session import AccessRevoked
from domain.refusal import Ending
from protocols.adapter import Peer, ignore_refusal
from protocols.host_shares import HostShare, HostShares
from protocols.http2.application import Application, ApplicationFactory, Headers
from protocols.http2.engine import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    EVENT_DATA,
    EVENT_ENDED,
    EVENT_FATAL,
    EVENT_HEADERS,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    SETTINGS_TIMEOUT,
    EngineFactory,
)
from protocols.http2.frame import CONTROL_FRAMES_MAX, RESETS_MAX, STREAMS_MAX, FrameOutline, goaway_frame, pieces
from protocols.http2.head import RequestHead
from protocols.http2.stream import RequestStream, Stalls

REQUEST_BYTES_MAX: Final = limits.CLOUDEVENTS_BATCH_BYTES_MAX + 1024 * 1024
OUTPUT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of answers queued since the last `outgoing` at which reading stops."""
HELD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of answers held back by the peer's windows at which new streams are refused."""
UNCOUNTED_BYTES_MAX: Final = 64 * 1024
"""Unread bytes of answers of one connection that do not count to the bound for all."""
LARGE_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Room for one more large answer: records of 4 MiB, the last of which may exceed that."""

TICK_NS: Final = limits.SECOND_NS
REQUEST_NS: Final = 10 * limits.SECOND_NS
"""Time for the body of a request, without the time that its bytes earn (`RequestStream.due`)."""
IDLE_NS: Final = 120 * limits.SECOND_NS
SILENCE_NS: Final = 60 * limits.SECOND_NS
PING_NS: Final = 20 * limits.SECOND_NS

_NOT_FOUND: Final[Headers] = [(b":status", b"404"), (b"content-length", b"0")]


@final
class Http2Connection:
    """Implements `protocols.adapter.Connection`, and `Reply` for its applications. Times are monotonic ns."""

    __slots__ = (
        "_answers", "_applications", "_draining", "_engine", "_eof", "_finished", "_goaway", "_heard_at", "_idle_at",
        "_inside_at", "_inside_count", "_last_stream", "_later", "_names", "_now", "_opened_at", "_outline", "_pinged",
        "_queued", "_refused", "_sent", "_served", "_share", "_stalls", "_streams", "_tick_at", "_tunnels", "_uploads_bytes",
        "_used", "_waiting_bytes", "closed", "reading", "spoken",
    )  # fmt: skip

    def __init__(
        self,
        engine: EngineFactory,
        factories: Sequence[ApplicationFactory],
        peer: Peer,
        now: int,
        uploads: HostShares | None = None,
        refused: Callable[[str, str], None] = ignore_refusal,
        unread: HostShares | None = None,
    ) -> None:
        self.reading = True  # False while too many answers are queued
        self.closed = False
        self._engine = engine(STREAMS_MAX)
        self._outline = FrameOutline(now)
        self._streams: dict[int, RequestStream] = {}  # requests whose response is not complete
        self._stalls = Stalls()
        self._now = self._opened_at = self._heard_at = self._idle_at = self._inside_at = now
        self._inside_count = 0  # frames before the one that is incomplete since _inside_at
        self._pinged = False  # True: no bytes since a PING was sent
        self._served = False  # True: a whole request has arrived, or one was answered
        self._later: deque[bytes] = deque()  # bytes for later turns, at most TURN_WEIGHT_MAX of frames each
        self._draining = False  # True: the node stops
        self._goaway = b""  # a frame behind the next output
        self._last_stream = 0  # the last stream that was opened
        self._eof = False  # True: the peer has sent all its bytes
        self._queued = 0
        self._finished = self._sent = 0  # responses, and bytes of all output
        self._uploads_bytes = 0  # bytes of incomplete, unanswered requests, and of those that wait for their turn
        self._waiting_bytes = 0  # bytes of requests that wait for their turn
        self._share = HostShare(HostShares() if uploads is None else uploads, peer.host)  # holds them from turn to turn
        self._answers = HostShare(HostShares() if unread is None else unread, peer.host)  # unread bytes of answers
        self._refused = refused
        self._tick_at = now + limits.HANDSHAKE_NS  # next check of the peer
        self.spoken = ""  # name of the application of the first stream
        self._names = [factory.name for factory in factories]
        self._tunnels = [getattr(factory, "tunnels", False) is True for factory in factories]
        self._applications: list[Application] = [factory.open(self, peer, now) for factory in factories]
        self._used: list[Application] = []  # those that were given anything: the others wait for nothing

    # Called by the gateway

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Bytes of the peer -> commands, in the order of its frames."""
        if self.closed:
            return ()
        if not data:
            self._eof = True
            return () if self._later else self._end(None, "eof", [])
        self._now = self._heard_at = now
        self._pinged = False
        commands: list[Command] = []
        outline = self._outline
        fault = outline.follow(data)
        if fault:
            return self._end(fault, "flood" if fault == ENHANCE_YOUR_CALM else "protocol-error", commands)
        if (
            outline.control - outline.control_base > CONTROL_FRAMES_MAX or outline.resets - outline.resets_base > RESETS_MAX
        ) and outline.is_flood(now, self._finished, self._sent, self._uploads_bytes):
            return self._end(ENHANCE_YOUR_CALM, "flood", commands)
        if outline.cuts or self._later:
            first = not self._later
            self._later.extend(pieces(data, outline.cuts))
            self.reading = False
            return self._take(self._later.popleft(), now, commands) if first else commands
        return self._take(data, now, commands)

    def _take(self, data: bytes, now: int, commands: list[Command]) -> Sequence[Command]:
        """Handle the frames of one turn."""
        outline = self._outline
        streams = self._streams
        for kind, stream_id, payload, end in self._engine.receive(data):
            if kind == EVENT_HEADERS:
                self._open(stream_id, cast(Headers, payload), end, now, commands)
                continue
            if kind == EVENT_FATAL:
                return self._end(None, "goaway" if payload == NO_ERROR else "protocol-error", commands)
            stream = streams.get(stream_id)
            if stream is None:
                continue
            if kind == EVENT_DATA:
                self._data(stream_id, stream, cast(bytes, payload), now, commands)
            elif kind == EVENT_ENDED:
                stream.complete = self._served = True
                self._uploads_bytes -= stream.received
                stream.received = 0
                commands += stream.application.ended(stream_id, now)
            else:
                self._drop(stream_id, stream)
                commands += stream.application.cancelled(stream_id, now)
        if self._uploads_bytes > self._share.held:
            self._hold(now, commands)
        if outline.inside or self._uploads_bytes or self._engine.held:
            self._schedule_tick(now)
        return commands

    def _hold(self, now: int, commands: list[Command]) -> None:
        """Count the bytes that stay incomplete after this turn; without room, the newest requests are reset."""
        share = self._share
        if share.take(self._uploads_bytes - share.held):
            return
        for stream_id, stream in reversed(list(self._streams.items())):
            if stream.received:
                self._refused("http", "uploads-full")
                self._cancel(stream_id, stream, ENHANCE_YOUR_CALM, now, commands)
                missing = self._uploads_bytes - share.held
                if missing <= 0 or share.take(missing):
                    return

    def answer(self, event: Event, now: int) -> None:
        """Pass an event to the application of its ticket; one without a ticket to all applications."""
        self._now = now
        ticket: Any = event.ticket  # that of an application, or None
        if type(event) is AccessRevoked:
            self._engine.goaway(NO_ERROR)
        elif ticket is None:
            self._used = self._applications
            for application in self._applications:
                application.answer(event, now)
        else:
            ticket[0].answer(event, now)

    def drain(self, now: int) -> Sequence[Command]:
        """The node stops: GOAWAY, and `drain` of the applications that have it. Requests in progress are answered.

        The connection is closed with the last of them.
        """
        self._now = now
        if self.closed:
            return ()
        self._draining = True
        self._used = self._applications
        self._goaway = goaway_frame(self._last_stream, NO_ERROR)
        drains = [getattr(application, "drain", None) for application in self._applications]
        commands = [command for drain in drains if drain is not None for command in drain(now)]
        return self._drained(commands)

    def _drained(self, commands: list[Command]) -> Sequence[Command]:
        """Close a draining connection whose requests are answered."""
        if self._draining and not self._streams and not self._engine.held and not self.closed:
            return self._end(None, Ending.SHUTTING_DOWN.value, commands, clean=True)
        return commands

    def outgoing(self) -> Sequence[bytes]:
        """The bytes to write, as the peer's windows allow."""
        data = self._engine.outgoing()
        if self._goaway:
            data, self._goaway = data + self._goaway, b""
        self._queued = 0
        if self._answers.held:
            self._answers.hold(self._engine.held)
        self.reading = not self._later and not self._waiting_bytes
        if self._engine.held and self._tick_at > self._now + TICK_NS:
            self._tick_at = self._now + TICK_NS
        self._sent += len(data)
        if self._uploads_bytes < self._share.held:
            self._share.give(self._share.held - self._uploads_bytes)
        return (data,) if data else ()

    def deadline(self) -> int | None:
        """The earliest deadline of the applications and of the next check of the peer, monotonic ns; 0 while bytes wait."""
        if self.closed:
            return None
        if self._later and self._queued <= OUTPUT_BYTES_MAX:
            return 0
        if self._draining and not self._streams and not self._engine.held:
            return 0
        earliest = self._tick_at
        for application in self._used:
            at = application.deadline()
            if at is not None and at < earliest:
                earliest = at
        return earliest

    def expire(self, now: int) -> Sequence[Command]:
        """Handle bytes that wait; call applications whose deadline has passed; check the peer when its check is due."""
        self._now = now
        commands: list[Command] = []
        if self.closed:
            return commands
        if self._later and self._queued <= OUTPUT_BYTES_MAX:
            self._take(self._later.popleft(), now, commands)
            self._heard_at = now
            if self._eof and not self._later and not self.closed:
                self._end(None, "eof", commands)
            if self.closed:
                return commands
        for application in self._used:
            at = application.deadline()
            if at is not None and at <= now:
                commands += application.expire(now)
        if now >= self._tick_at:
            self._tick_at = now + TICK_NS
            self._tick(now, commands)
        return commands if self.closed else self._drained(commands)

    # Called by applications

    def respond(self, stream_id: int, headers: Headers, end: bool) -> None:
        """Send response header fields."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.answered = self._served = True
        self._uploads_bytes -= stream.received
        stream.received = 0
        self._engine.respond(stream_id, headers, end)
        if end:
            self._finish(stream_id)

    def send(self, stream_id: int, data: bytes, end: bool) -> None:
        """Send a part of the body."""
        if stream_id not in self._streams:
            return
        self._queued += len(data)
        if self._queued > OUTPUT_BYTES_MAX:
            self.reading = False
        self._engine.send(stream_id, data, end)
        if self._engine.held > UNCOUNTED_BYTES_MAX:
            self._answers.hold(self._engine.held)  # made when there was room, and may exceed it a little
        if end:
            self._finish(stream_id)

    def trailers(self, stream_id: int, headers: Headers) -> None:
        """End the response with trailer fields."""
        if stream_id in self._streams:
            self._engine.trailers(stream_id, headers)
            self._finish(stream_id)

    def reset(self, stream_id: int, code: int) -> None:
        """Reset a stream."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._drop(stream_id, stream)
            self._engine.reset(stream_id, code)

    def pending(self, stream_id: int) -> int:
        """Bytes of bodies that have not been sent, of complete responses too: of one stream, or of all for stream 0."""
        return self._engine.pending(stream_id) if stream_id else self._engine.held

    def pause(self, stream_id: int) -> None:
        """Stop returning the window of a stream."""
        self._engine.pause(stream_id)

    def resume(self, stream_id: int) -> None:
        """Return the window withheld since `pause`."""
        self._engine.resume(stream_id)

    def is_full(self) -> bool:
        """True when the unread answers of this peer's host leave no room for a large one."""
        return self._engine.held > HELD_BYTES_MAX or self._answers.room < LARGE_ANSWER_BYTES

    def hold(self, size: int) -> None:
        """Count bytes of complete requests that wait for their turn."""
        self._waiting_bytes += size
        self._uploads_bytes += size
        if self._waiting_bytes:
            self.reading = False

    # Streams

    def _open(self, stream_id: int, headers: Headers, end: bool, now: int, commands: list[Command]) -> None:
        self._last_stream = stream_id if not self._draining else self._last_stream
        if len(self._streams) >= STREAMS_MAX or self._engine.held > HELD_BYTES_MAX or self._draining:
            self._engine.reset(stream_id, REFUSED_STREAM)
            return
        head = RequestHead(headers)
        for at, application in enumerate(self._applications):  # a strict `zip` is not compiled to a loop
            if (head.protocol or not self._tunnels[at]) and application.accepts(head):
                if application not in self._used:
                    self._used = [*self._used, application]
                if not self.spoken:
                    self.spoken = self._names[at]
                self._streams[stream_id] = RequestStream(application, end, now + REQUEST_NS)
                self._served = self._served or end
                commands += application.opened(stream_id, head, now)
                if end:
                    if stream_id in self._streams:
                        commands += application.ended(stream_id, now)
                elif self._tick_at > now + REQUEST_NS:
                    self._tick_at = now + REQUEST_NS
                return
        self._engine.respond(stream_id, _NOT_FOUND, True)

    def _data(self, stream_id: int, stream: RequestStream, data: bytes, now: int, commands: list[Command]) -> None:
        if not stream.answered:
            stream.received += len(data)
            self._uploads_bytes += len(data)
            if stream.received > REQUEST_BYTES_MAX:
                self._cancel(stream_id, stream, ENHANCE_YOUR_CALM, now, commands)
                return
        commands += stream.application.data(stream_id, data, now)

    def _cancel(self, stream_id: int, stream: RequestStream, code: int, now: int, commands: list[Command]) -> None:
        self._drop(stream_id, stream)
        self._engine.reset(stream_id, code)
        commands += stream.application.cancelled(stream_id, now)

    def _finish(self, stream_id: int) -> None:
        self._finished += 1
        self._drop(stream_id, self._streams[stream_id])

    def _drop(self, stream_id: int, stream: RequestStream) -> None:
        self._uploads_bytes -= stream.received
        del self._streams[stream_id]
        self._idle_at = self._now

    def _end(self, code: int | None, reason: str, commands: list[Command], clean: bool = False) -> Sequence[Command]:
        """Close the connection: GOAWAY with `code` unless it is None, `cancelled` for each stream, Disconnected."""
        if code is not None:
            self._engine.goaway(code)
        self.closed = True
        self._share.release()
        self._answers.release()
        self._later.clear()
        streams, self._streams = self._streams, {}
        for stream_id, stream in streams.items():
            commands += stream.application.cancelled(stream_id, self._now)
        commands.append(Disconnected(reason, clean))
        return commands

    # Checks of the peer

    def _schedule_tick(self, now: int) -> None:
        """Check the peer within TICK_NS: a frame or request is incomplete, or answers are held back."""
        outline = self._outline
        count = outline.work + outline.control
        if outline.inside and count != self._inside_count:
            self._inside_count, self._inside_at = count, now
        self._tick_at = min(self._tick_at, now + TICK_NS)

    def _tick(self, now: int, commands: list[Command]) -> Sequence[Command]:
        outline = self._outline
        stuck = outline.inside and outline.work + outline.control == self._inside_count
        if not outline.acknowledged and now - self._opened_at >= limits.HANDSHAKE_NS:
            return self._end(SETTINGS_TIMEOUT, "handshake-timeout", commands)
        if stuck and now - self._inside_at >= limits.FRAME_NS:
            return self._end(PROTOCOL_ERROR, "frame-timeout", commands)
        for stream_id, stream in list(self._streams.items()):
            if not (stream.complete or stream.answered) and stream.due() <= now:
                self._cancel(stream_id, stream, CANCEL, now, commands)
        if self._engine.held or self._stalls.held_back:
            self._end_stalls(now, commands)
        if not self._streams:
            if not self._served and now - self._opened_at >= limits.HANDSHAKE_NS:
                return self._end(NO_ERROR, "handshake-timeout", commands)
            if now - self._idle_at >= IDLE_NS:
                return self._end(NO_ERROR, "idle", commands, clean=True)
        if now - self._heard_at >= SILENCE_NS + PING_NS:
            return self._end(NO_ERROR, "ping-timeout", commands)
        if now - self._heard_at >= SILENCE_NS and not self._pinged:
            self._pinged = True
            self._engine.ping()
        self._tick_at = self._next_tick(now)
        return commands

    def _next_tick(self, now: int) -> int:
        if self._outline.inside or self._engine.held or self._uploads_bytes:
            return now + TICK_NS
        earliest = self._heard_at + (SILENCE_NS + PING_NS if self._pinged else SILENCE_NS)
        for stream in self._streams.values():
            if not (stream.complete or stream.answered):
                earliest = min(earliest, stream.due())
        if not self._streams:
            earliest = min(earliest, self._idle_at + IDLE_NS)
        if not (self._outline.acknowledged and self._served):
            earliest = min(earliest, self._opened_at + limits.HANDSHAKE_NS)
        return max(earliest, now + TICK_NS)

    def _end_stalls(self, now: int, commands: list[Command]) -> None:
        """Reset streams whose peer has accepted no bytes of a pending body for STALL_NS."""
        for stream_id in self._stalls.late(self._engine.stalled(), now):
            stream = self._streams.get(stream_id)
            if stream is not None:
                self._cancel(stream_id, stream, CANCEL, now, commands)
            else:
                self._engine.reset(stream_id, CANCEL)
