"""One HTTP/2 connection: passes streams to applications, and limits the cost of a hostile or unresponsive peer.

The engine handles frames and windows, applications handle requests; the connection handles deadlines, limits and routing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast, final

from domain import limits
from domain.client.mqtt_session import AccessRevoked
from domain.command import Command, Disconnected
from domain.event import Event
from domain.refusal import Ending
from protocols.adapter import Peer, ignore_refusal
from protocols.host_shares import HostShares
from protocols.http2.application import Application, ApplicationFactory
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
from protocols.http2.head import Headers, RequestHead
from protocols.http2.stream import HELD_BYTES_MAX, OUTPUT_BYTES_MAX, RequestStream, RequestStreams, Stalls

TICK_NS: Final = limits.SECOND_NS
REQUEST_NS: Final = 10 * limits.SECOND_NS
"""Time for the body of a request, without the time that its bytes earn (`RequestStream.due`)."""
IDLE_NS: Final = 120 * limits.SECOND_NS
SILENCE_NS: Final = 60 * limits.SECOND_NS
PING_NS: Final = 20 * limits.SECOND_NS

_NOT_FOUND: Final[Headers] = [(b":status", b"404"), (b"content-length", b"0")]


@final
class Http2Connection:
    """Implements `protocols.adapter.Connection`. Times are monotonic ns."""

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
        self.closed = False
        self._engine = engine(STREAMS_MAX)
        self._outline = FrameOutline(now)
        self._requests = RequestStreams(self._engine, peer, now, uploads, refused, unread)
        self._stalls = Stalls()
        self._opened_at = self._heard_at = self._inside_at = now
        self._inside_count = 0  # frames before the one that is incomplete since _inside_at
        self._pinged = False  # True: no bytes since a PING was sent
        self._later: deque[bytes] = deque()  # bytes for later turns, at most TURN_WEIGHT_MAX of frames each
        self._draining = False  # True: the node stops
        self._goaway = b""  # a frame behind the next output
        self._last_stream = 0  # the last stream that was opened
        self._eof = False  # True: the peer has sent all its bytes
        self._parting = ""  # why the connection ends, when input waits in an application
        self._sent = 0  # bytes of all output
        self._tick_at = now + limits.HANDSHAKE_NS  # next check of the peer
        self.spoken = ""  # name of the application of the first stream
        self._names = [factory.name for factory in factories]
        self._tunnels = [getattr(factory, "tunnels", False) is True for factory in factories]
        self._applications: list[Application] = [factory.open(self._requests, peer, now) for factory in factories]
        self._used: list[Application] = []  # those that were given anything: the others wait for nothing

    @property
    def reading(self) -> bool:
        """False while bytes of the peer wait for their turn, or too many answers are queued."""
        return not self._later and not self._requests.full

    @property
    def unhandled(self) -> bool:
        """True while frames wait for later turns, or input of streams that have ended waits in an application."""
        return len(self._later) > 0 or self._applications_wait

    @property
    def _applications_wait(self) -> bool:
        return any(getattr(application, "unhandled", False) for application in self._used)

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Bytes of the peer -> commands, in the order of its frames."""
        if self.closed or self._parting:
            return ()
        if not data:
            self._eof = True
            return () if self._later else self._end(None, "eof", [])
        self._requests.now = self._heard_at = now
        self._pinged = False
        commands: list[Command] = []
        outline = self._outline
        fault = outline.follow(data)
        if fault:
            return self._end(fault, "flood" if fault == ENHANCE_YOUR_CALM else "protocol-error", commands)
        if (
            outline.control - outline.control_base > CONTROL_FRAMES_MAX or outline.resets - outline.resets_base > RESETS_MAX
        ) and outline.is_flood(now, self._requests.finished, self._sent, self._requests.uploads_bytes):
            return self._end(ENHANCE_YOUR_CALM, "flood", commands)
        if outline.cuts or self._later:
            first = not self._later
            self._later.extend(pieces(data, outline.cuts))
            return self._take(self._later.popleft(), now, commands) if first else commands
        return self._take(data, now, commands)

    def _take(self, data: bytes, now: int, commands: list[Command]) -> Sequence[Command]:
        """Handle the frames of one turn."""
        outline = self._outline
        requests = self._requests
        streams = requests.open
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
                requests.data(stream_id, stream, cast(bytes, payload), now, commands)
            elif kind == EVENT_ENDED:
                stream.complete = requests.served = True
                requests.uploads_bytes -= stream.received
                stream.received = 0
                commands += stream.application.ended(stream_id, now)
            else:
                requests.drop(stream_id, stream)
                commands += stream.application.cancelled(stream_id, now)
        if requests.uploads_bytes > requests.share.held:
            requests.make_room(now, commands)
        if outline.inside or requests.uploads_bytes or self._engine.held:
            self._schedule_tick(now)
        return commands

    def answer(self, event: Event, now: int) -> None:
        """Pass an event to the application of its ticket; one without a ticket to all applications."""
        self._requests.now = now
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
        self._requests.now = now
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
        if self._draining and not self._requests.open and not self._engine.held and not self.closed:
            return self._end(None, Ending.SHUTTING_DOWN.value, commands, clean=True)
        return commands

    def outgoing(self) -> Sequence[bytes]:
        """The bytes to write, as the peer's windows allow."""
        data = self._engine.outgoing()
        if self._goaway:
            data, self._goaway = data + self._goaway, b""
        requests = self._requests
        requests.queued = 0
        if requests.answers.held:
            requests.answers.hold(self._engine.held)
        if self._engine.held and self._tick_at > requests.now + TICK_NS:
            self._tick_at = requests.now + TICK_NS
        self._sent += len(data)
        if requests.uploads_bytes < requests.share.held:
            requests.share.give(requests.share.held - requests.uploads_bytes)
        return (data,) if data else ()

    def deadline(self) -> int | None:
        """The earliest deadline of the applications and of the next check of the peer, monotonic ns; 0 while bytes wait."""
        if self.closed:
            return None
        if self._later and self._requests.queued <= OUTPUT_BYTES_MAX:
            return 0
        if self._draining and not self._requests.open and not self._engine.held:
            return 0
        if self._parting and not self._applications_wait:
            return 0
        earliest = self._tick_at
        for application in self._used:
            at = application.deadline()
            if at is not None and at < earliest:
                earliest = at
        return earliest

    def expire(self, now: int) -> Sequence[Command]:
        """Handle bytes that wait; call applications whose deadline has passed; check the peer when its check is due."""
        self._requests.now = now
        commands: list[Command] = []
        if self.closed:
            return commands
        if self._later and self._requests.queued <= OUTPUT_BYTES_MAX:
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
        if self._parting and not self._applications_wait:
            return self._end(None, self._parting, commands)
        if now >= self._tick_at:
            self._tick_at = now + TICK_NS
            self._tick(now, commands)
        return commands if self.closed else self._drained(commands)

    # Streams

    def _open(self, stream_id: int, headers: Headers, end: bool, now: int, commands: list[Command]) -> None:
        self._last_stream = stream_id if not self._draining else self._last_stream
        if len(self._requests.open) >= STREAMS_MAX or self._engine.held > HELD_BYTES_MAX or self._draining:
            self._engine.reset(stream_id, REFUSED_STREAM)
            return
        head = RequestHead(headers)
        for at, application in enumerate(self._applications):  # a strict `zip` is not compiled to a loop
            if (head.protocol or not self._tunnels[at]) and application.accepts(head):
                if application not in self._used:
                    self._used = [*self._used, application]
                if not self.spoken:
                    self.spoken = self._names[at]
                self._requests.open[stream_id] = RequestStream(application, end, now + REQUEST_NS)
                self._requests.served = self._requests.served or end
                commands += application.opened(stream_id, head, now)
                if end:
                    if stream_id in self._requests.open:
                        commands += application.ended(stream_id, now)
                elif self._tick_at > now + REQUEST_NS:
                    self._tick_at = now + REQUEST_NS
                return
        self._engine.respond(stream_id, _NOT_FOUND, True)

    def _end(self, code: int | None, reason: str, commands: list[Command], clean: bool = False) -> Sequence[Command]:
        """Close the connection: GOAWAY with `code` unless it is None, `cancelled` for each stream, Disconnected."""
        if code is not None:
            self._engine.goaway(code)
        self._later.clear()
        streams = self._requests.release()
        for stream_id, stream in streams.items():
            commands += stream.application.cancelled(stream_id, self._requests.now)
        if code is None and not self._parting and not self._draining and self._applications_wait:
            self._parting = reason
            return commands
        self.closed = True
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
        for stream_id, stream in list(self._requests.open.items()):
            if not (stream.complete or stream.answered) and stream.due() <= now:
                self._requests.cancel(stream_id, CANCEL, now, commands)
        if self._engine.held or self._stalls.held_back:
            for stream_id in self._stalls.late(self._engine.stalled(), now):
                self._requests.cancel(stream_id, CANCEL, now, commands)
        if not self._requests.open:
            if not self._requests.served and now - self._opened_at >= limits.HANDSHAKE_NS:
                return self._end(NO_ERROR, "handshake-timeout", commands)
            if now - self._requests.idle_at >= IDLE_NS:
                return self._end(NO_ERROR, "idle", commands, clean=True)
        if now - self._heard_at >= SILENCE_NS + PING_NS:
            return self._end(NO_ERROR, "ping-timeout", commands)
        if now - self._heard_at >= SILENCE_NS and not self._pinged:
            self._pinged = True
            self._engine.ping()
        self._tick_at = self._next_tick(now)
        return commands

    def _next_tick(self, now: int) -> int:
        if self._outline.inside or self._engine.held or self._requests.uploads_bytes:
            return now + TICK_NS
        earliest = self._heard_at + (SILENCE_NS + PING_NS if self._pinged else SILENCE_NS)
        for stream in self._requests.open.values():
            if not (stream.complete or stream.answered):
                earliest = min(earliest, stream.due())
        if not self._requests.open:
            earliest = min(earliest, self._requests.idle_at + IDLE_NS)
        if not (self._outline.acknowledged and self._requests.served):
            earliest = min(earliest, self._opened_at + limits.HANDSHAKE_NS)
        return max(earliest, now + TICK_NS)
