"""Faults of the writes of a log: one after which nothing is written, or a full disk, and the retries once a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.ports import Clock, Timer
from domain.shortage import is_full, lack_of
from domain.store.store_event import StoreEventKind
from store.events import StoreEvents

_AGAIN_NS: Final = 1_000_000_000
"""Time between two attempts."""
_WRITES: Final = "writes"
"""The part of the store that refuses writes, in `StoreEvents`."""


@final
class WriteFaults:
    """The faults of one log.

    broken   failure after which nothing is written; None while the log works
    full     failure while the disk has no room, or the process no file descriptor; None while there is
    """

    def __init__(
        self,
        clock: Clock,
        events: StoreEvents,
        effect: str,
        write: Callable[[], None],
        stopped: Callable[[Failure, bool], None],
    ) -> None:
        """`effect`: of a broken log, for the operator. `write()` writes again what waits for room, and raises OSError.
        `stopped(failure, for_good)` is called when a fault begins."""
        self.broken: Failure | None = None
        self.full: Failure | None = None
        self._clock = clock
        self._events = events
        self._effect = effect
        self._write = write
        self._stopped = stopped
        self._timer: Timer | None = None
        self._ended = ""

    def refusal(self) -> Failure | None:
        """Failure (STORE_UNAVAILABLE) because of which nothing is written now; None while the log works."""
        return self.broken if self.broken is not None else self.full

    def failed(self, what: str, error: OSError) -> None:
        """Handle the failure of `what`, a write that was undone: `fill` on a full disk, else `stop`."""
        if is_full(error):
            self.fill(what, error)
        else:
            self.stop(what, error)

    def fill(self, what: str, error: OSError) -> None:
        """Wait for room on the disk, or for a file descriptor: `what`, a write that was undone, has found none."""
        if self.broken is not None or self.full is not None:
            return
        lack = lack_of(error)
        reason = f"{what} {lack.found} ({error.strerror or error}): writes go on by themselves when {lack.until}"
        self.full = Failure(ErrorCode.STORE_UNAVAILABLE, reason)
        self._ended = f"{lack.ended}: writes are taken again"
        self._stopped(self.full, False)
        self._later()
        self._events.stops(StoreEventKind.FULL, _WRITES, str(error.filename or ""), reason, lack.remedy)

    def stop(self, what: str, error: OSError) -> None:
        """Write nothing more: `what`, a write or a sync, has failed with `error`."""
        if self.broken is None:
            reason = f"{what} failed ({error.strerror or error}): {self._effect} until it is restarted"
            self.broken = Failure(ErrorCode.STORE_UNAVAILABLE, reason)
            remedy = "look at the disk and the kernel's log, then restart the node: it keeps what it can prove"
            self._events.notify(StoreEventKind.STOPPED, str(error.filename or ""), reason, remedy, error)
        self.end()
        self._stopped(self.broken, True)

    def end(self) -> None:
        """Wait for room no more: the log is closed, or takes no writes for another reason."""
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
                self.stop("a write of the log", error)
            return
        self.full = None
        self._events.goes_on(StoreEventKind.FULL, _WRITES, self._ended)
