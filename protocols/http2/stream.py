"""One request on an HTTP/2 connection, as the connection sees it, and bodies of responses that its peer does not take."""

from __future__ import annotations

from typing import Final, final

from domain import limits
from protocols.http2.application import Application

UPLOAD_BYTES_PER_SECOND: Final = 32 * 1024
STALL_NS: Final = 60 * limits.SECOND_NS


@final
class RequestStream:
    """A request whose response is not complete.

    application   handles the request
    complete      True: the whole request has arrived
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

    __slots__ = ("held_back",)

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
