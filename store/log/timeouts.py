"""Timeouts of appends that wait for their level for longer than the flush timeout; they are answered and stay in the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain.errors import ErrorCode, Failure
from domain.ports import Clock, Timer
from domain.store.store_event import StoreEventKind
from store.events import StoreEvents
from store.log.open_batch import Effects, overdue


@final
class AppendTimeouts:
    """Answers late appends with FLUSH_TIMEOUT.

    stalled   failure of new appends that wait for a sync, while the running one exceeds the timeout; else None
    """

    def __init__(
        self, clock: Clock, events: StoreEvents, timeout_ms: int,
        waiting: Callable[[], tuple[Sequence[Effects], Sequence[Effects], int]],
    ) -> None:  # fmt: skip
        """`waiting()` returns (effects that are written and not synced, effects that are not written since the disk is full,
        monotonic ns of the begin of the running sync; 0: none runs)."""
        self._clock = clock
        self._events = events
        self._timeout_ms = timeout_ms
        self._waiting = waiting
        self._timer: Timer | None = None
        self.count = 0
        self.stalled: Failure | None = None

    def begin(self, began_ns: int) -> None:
        """Watch a wait that began at `began_ns`, monotonic. No effect while another one is watched."""
        if self._timer is None:
            self._timer = self._clock.call_at(began_ns + self._timeout_ms * 1_000_000, self._poll)

    def end(self) -> None:
        """End the watch: no append waits."""
        if self.stalled is not None:
            self.stalled = None
            text = "what waited for the sync is answered: writes are taken"
            self._events.goes_on(StoreEventKind.STALLED, "sync", text)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _poll(self) -> None:
        self._timer = None
        (unsynced, unwritten, since_ns), now = self._waiting(), self._clock.monotonic_ns()
        limit_ns = self._timeout_ms * 1_000_000
        late_unsynced, late_unwritten = overdue(unsynced, now - limit_ns), overdue(unwritten, now - limit_ns)
        if self.stalled is None and 0 < since_ns <= now - limit_ns:
            text = f"the disk has not ended a sync for {self._timeout_ms} ms: writes go on by themselves when it has"
            self.stalled = Failure(ErrorCode.STORE_UNAVAILABLE, text)
            self._events.stops(StoreEventKind.STALLED, "sync", "", text, "look at the disk and the kernel's log")
        if since_ns or unwritten:
            self._timer = self._clock.call_at(now + limit_ns // 4, self._poll)
        for found, text in (
            (late_unsynced, f"stored, but not flushed within {self._timeout_ms} ms"),
            (late_unwritten, "accepted, but not written yet: the disk is full"),
        ):
            for done in found:
                self._events.run("the answer to an append", done, Failure(ErrorCode.FLUSH_TIMEOUT, text))
