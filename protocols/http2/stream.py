"""One request on an HTTP/2 connection, as the connection sees it."""

from __future__ import annotations

from typing import Final, final

from domain import limits
from protocols.http2.application import Application

UPLOAD_BYTES_PER_SECOND: Final = 32 * 1024


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
