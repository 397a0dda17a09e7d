"""The requests on an HTTP/2 connection, the answers of their applications, and bodies that its peer does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain import limits
from domain.command import Command
from protocols.adapter import Peer
from protocols.host_shares import HostShare, HostShares
from protocols.http2.application import Application
from protocols.http2.engine import ENHANCE_YOUR_CALM, Engine
from protocols.http2.head import Headers

REQUEST_BYTES_MAX: Final = limits.CLOUDEVENTS_BATCH_BYTES_MAX + 1024 * 1024
OUTPUT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of answers queued since the last `outgoing` at which reading stops."""
HELD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of answers held back by the peer's windows at which new streams are refused."""
UNCOUNTED_BYTES_MAX: Final = 64 * 1024
"""Unread bytes of answers of one connection that do not count to the bound for all."""
LARGE_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Room for one more large answer: records of 4 MiB, the last of which may exceed that."""
UPLOAD_BYTES_PER_SECOND: Final = 32 * 1024
STALL_NS: Final = 60 * limits.SECOND_NS


@final
class RequestStream:
    """A request whose response is not complete.

    answered      True: the response has begun
    received      bytes of the body of an incomplete, unanswered request
    deadline      monotonic ns by which the request must be complete or answered; bytes of its body move it
    """

    __slots__ = ("answered", "application", "complete", "deadline", "received")

    def __init__(self, application: Application, complete: bool, deadline: int) -> None:
        self.application = application
        self.complete = complete
        self.answered = False
        self.received = 0
        self.deadline = deadline

    def due(self) -> int:
        """Monotonic ns at which the request is given up: later by a second for every 32 KiB that have arrived."""
        return self.deadline + self.received * limits.SECOND_NS // UPLOAD_BYTES_PER_SECOND


@final
class Stalls:
    """Bodies of responses that the windows of the peer hold back.

    held_back   stream id -> (bytes, monotonic ns since which they are as many)
    """

    def __init__(self) -> None:
        self.held_back: dict[int, tuple[int, int]] = {}

    def late(self, stalled: list[tuple[int, int]], now: int) -> list[int]:
        """The streams of `stalled`, (stream id, bytes), of which the peer has taken nothing for STALL_NS."""
        held_back: dict[int, tuple[int, int]] = {}
        late: list[int] = []
        for stream_id, size in stalled:
            known, since = self.held_back.get(stream_id, (-1, now))
            if known != size:
                since = now
            if now - since < STALL_NS:
                held_back[stream_id] = (size, since)
            else:
                late.append(stream_id)
        self.held_back = held_back
        return late


@final
class RequestStreams:
    """The requests of one connection whose response is not complete, and the `Reply` of their applications.

    now             monotonic ns of the present call of the connection
    idle_at         monotonic ns at which the last response was complete
    served          True: a whole request has arrived, or one was answered
    queued          bytes of answers since the last `outgoing`
    uploads_bytes   bytes of incomplete, unanswered requests, and of those that wait for their turn
    share           its part of the bound of all uploads, from turn to turn
    answers         its part of the bound of all unread answers
    """

    def __init__(
        self,
        engine: Engine,
        peer: Peer,
        now: int,
        uploads: HostShares | None,
        refused: Callable[[str, str], None],
        unread: HostShares | None,
    ) -> None:
        self._engine = engine
        self._refused = refused
        self.open: dict[int, RequestStream] = {}
        self.now = self.idle_at = now
        self.served = False
        self.finished = self.queued = self.uploads_bytes = self._waiting_bytes = 0
        self.share = HostShare(HostShares() if uploads is None else uploads, peer.host)
        self.answers = HostShare(HostShares() if unread is None else unread, peer.host)

    @property
    def full(self) -> bool:
        """True while too many answers are queued, or a complete request waits for its turn: nothing is read."""
        return self.queued > OUTPUT_BYTES_MAX or self._waiting_bytes > 0

    # The `Reply` of applications

    def respond(self, stream_id: int, headers: Headers, end: bool) -> None:
        """Send response header fields."""
        stream = self.open.get(stream_id)
        if stream is None:
            return
        stream.answered = self.served = True
        self.uploads_bytes -= stream.received
        stream.received = 0
        self._engine.respond(stream_id, headers, end)
        if end:
            self._finish(stream_id)

    def send(self, stream_id: int, data: bytes, end: bool) -> None:
        """Send a part of the body."""
        if stream_id not in self.open:
            return
        self.queued += len(data)
        self._engine.send(stream_id, data, end)
        if self._engine.held > UNCOUNTED_BYTES_MAX:
            self.answers.hold(self._engine.held)  # made when there was room, and may exceed it a little
        if end:
            self._finish(stream_id)

    def trailers(self, stream_id: int, headers: Headers) -> None:
        """End the response with trailer fields."""
        if stream_id in self.open:
            self._engine.trailers(stream_id, headers)
            self._finish(stream_id)

    def reset(self, stream_id: int, code: int) -> None:
        """Reset a stream with an error code of HTTP/2, and forget it. An unknown one is ignored."""
        stream = self.open.get(stream_id)
        if stream is not None:
            self.drop(stream_id, stream)
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
        return self._engine.held > HELD_BYTES_MAX or self.answers.room < LARGE_ANSWER_BYTES

    def hold(self, size: int) -> None:
        """Count bytes of complete requests that wait for their turn."""
        self._waiting_bytes += size
        self.uploads_bytes += size

    # The connection's calls

    def data(self, stream_id: int, stream: RequestStream, data: bytes, now: int, commands: list[Command]) -> None:
        """Pass on a part of a request, up to REQUEST_BYTES_MAX."""
        if not stream.answered:
            stream.received += len(data)
            self.uploads_bytes += len(data)
            if stream.received > REQUEST_BYTES_MAX:
                self.cancel(stream_id, ENHANCE_YOUR_CALM, now, commands)
                return
        commands += stream.application.data(stream_id, data, now)

    def make_room(self, now: int, commands: list[Command]) -> None:
        """Count the bytes that stay incomplete after this turn; without room, the newest requests are reset."""
        share = self.share
        if share.take(self.uploads_bytes - share.held):
            return
        for stream_id, stream in reversed(list(self.open.items())):
            if stream.received:
                self._refused("http", "uploads-full")
                self.cancel(stream_id, ENHANCE_YOUR_CALM, now, commands)
                missing = self.uploads_bytes - share.held
                if missing <= 0 or share.take(missing):
                    return

    def cancel(self, stream_id: int, code: int, now: int, commands: list[Command]) -> None:
        """Reset a stream, of a complete response too; a request without one is cancelled."""
        stream = self.open.get(stream_id)
        if stream is not None:
            self.drop(stream_id, stream)
        self._engine.reset(stream_id, code)
        if stream is not None:
            commands += stream.application.cancelled(stream_id, now)

    def drop(self, stream_id: int, stream: RequestStream) -> None:
        """Forget a request that is answered, reset or cancelled."""
        self.uploads_bytes -= stream.received
        del self.open[stream_id]
        self.idle_at = self.now

    def release(self) -> dict[int, RequestStream]:
        """The connection is closed: return its share of the bounds, and take the open requests."""
        self.share.release()
        self.answers.release()
        streams, self.open = self.open, {}
        return streams

    def _finish(self, stream_id: int) -> None:
        self.finished += 1
        self.drop(stream_id, self.open[stream_id])
