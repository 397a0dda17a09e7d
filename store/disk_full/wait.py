"""The wait for room on a full disk, or for a file descriptor: writes are retried once a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.ports import Clock, Timer
from domain.store.store_event import StoreEventKind
from store.disk_full.errors import is_full, lack_of
from store.events import StoreEvents

_AGAIN_NS: Final = 1_000_000_000
"""Time between two attempts."""


@final
class FullDisk:
    """Wait of the log for room on the disk, or for a file descriptor."""

    def __init__(
        self, clock: Clock, events: StoreEvents, write: Callable[[], None], stop: Callable[[str, OSError], None]
    ) -> None:
        """`write()` writes the waiting batches, and raises OSError; `stop(what, error)` is called after any other error."""
        self.failure: Failure | None = None
        self._clock = clock
        self._events = events
        self._write = write
        self._stop = stop
        self._timer: Timer | None = None
        self._ended = ""

    def begin(self, what: str, error: OSError) -> None:
        """Begin the wait: `what` has failed with `error`, for lack of room or of a file descriptor."""
        lack = lack_of(error)
        reason = f"{what} {lack.found} ({error.strerror or error}): writes go on by themselves when {lack.until}"
        self.failure = Failure(ErrorCode.STORE_UNAVAILABLE, reason)
        self._ended = f"{lack.ended}: writes are taken again"
        self._later()
        self._events.notify(StoreEventKind.FULL, str(error.filename or ""), reason, lack.remedy)

    def end(self) -> None:
        """Try no more: the log is closed, or takes no writes for another reason."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + _AGAIN_NS, self._again)

    def _again(self) -> None:
        self._timer = None
        try:
            self._write()
        except OSError as error:
            if is_full(error):
                self._later()
            else:
                self._stop("a write of the log", error)
            return
        self.failure = None
        self._events.notify(StoreEventKind.RESUMED, "", self._ended)
