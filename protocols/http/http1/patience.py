"""Time that a connection waits for a request, by the table in protocols/http/connection.py."""

from __future__ import annotations

from typing import Final, final

from domain import limits
from protocols.http.http1.reader import Reader
from protocols.http.request import content_due

KEEP_ALIVE_NS: Final = 60 * limits.SECOND_NS


@final
class Patience:
    """The deadline of the request that is arriving, or of a connection without one.

    silent     True: no request has been complete
    _idle_at   monotonic ns at which a connection without requests is closed
    """

    def __init__(self, now: int) -> None:
        self.silent = True
        self._began = 0
        self._idle_at = now + limits.HANDSHAKE_NS

    def begin(self, now: int) -> None:
        """The first byte of a request has arrived."""
        self._began = now

    def rest(self, now: int) -> None:
        """All requests are answered. Before the first request the deadline stays."""
        if not self.silent:
            self._idle_at = now + KEEP_ALIVE_NS

    def deadline(self, reader: Reader, unanswered: bool) -> int | None:
        """Monotonic ns; None while bytes wait to be parsed, or a flow waits for content, or a request for its answer."""
        current = reader.current
        if reader.behind or (current is not None and current.feeds):
            return None
        if current is not None:
            return content_due(self._began, reader.size)
        if reader.begun:
            return self._began + limits.FRAME_NS
        return None if unanswered else self._idle_at
