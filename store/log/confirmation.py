"""The replicas that a leader's log waits for: batches take effect when the whole SyncStateSet has them.

    written here --> waits --confirmed written--> effects
    synced here  --> waits --confirmed synced---> effects

An append to a topic whose level needs no replica (`page`, `flushed`) is answered before; it becomes readable with the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.ports import Clock, Timer
from domain.store.store_event import StoreEventKind
from store.events import StoreEvents
from store.log.open_batch import Done, Effects, overdue
from store.log.recent import RecentBytes

_REPLICAS: Final = "replicas"
"""The part of the store that refuses writes, in `StoreEvents`."""
_PARTS: Final = 4
"""Polls per flush timeout for late appends."""


@final
class Confirmation:
    """Batches that wait for the other replicas, in the order of the log.

    written   position up to which all members of the SyncStateSet have written the log
    synced    position up to which it is durable on all of them
    late      appends answered FLUSH_TIMEOUT, since the start
    stalled   failure of new appends, while waiting ones have waited for longer than the flush timeout without a confirmation;
              None: appends are taken
    listeners called after further bytes of the log are written or synced
    _page     (end, effects) of written batches that wait for `written`
    _flushed  (end, effects) of synced batches that wait for `synced`
    _still    polls since the last confirmed batch
    """

    def __init__(
        self, clock: Clock, events: StoreEvents, timeout_ms: int, reach: Callable[[Effects], None], begin: int
    ) -> None:
        """`begin`: end of the log at the begin of the leadership."""
        self.written = 0
        self.synced = 0
        self.recent = RecentBytes()
        self.late = 0
        self.stalled: Failure | None = None
        self._still = 0
        self.listeners: list[Callable[[], None]] = []
        self._begin = begin
        self._clock = clock
        self._events = events
        self._timeout_ms = timeout_ms
        self._reach = reach
        self._page: deque[tuple[int, Effects]] = deque()
        self._flushed: deque[tuple[int, Effects]] = deque()
        self._timer: Timer | None = None
        self._members = 1
        self._least = 1

    def wait(self, end: int, effects: Effects, flushed: bool) -> None:
        """Let the effects of a batch that ends at `end`, and has reached this level here, wait for the replicas."""
        for pending in effects.pending:
            if pending.local and pending.done is not None:
                done, pending.done = pending.done, None
                self._events.run("the answer to an append", done, pending.placed)
        (self._flushed if flushed else self._page).append((end, effects))
        if self._timer is None:
            self._still = 0
            self._poll_later()

    def confirm(self, written: int, synced: int) -> None:
        """Take the positions up to which all members of the SyncStateSet have the log; they never decrease."""
        self.written = max(self.written, written)
        self.synced = max(self.synced, min(synced, self.written))
        for waiting, position in ((self._page, self.written), (self._flushed, self.synced)):
            while waiting and waiting[0][0] <= position:
                self._still = 0
                if self.stalled is not None:
                    self._moves()
                self._reach(waiting.popleft()[1])

    def unconfirmed(self, end: int) -> int:
        """Bytes up to `end`, accepted by this leader, that wait for replicas."""
        if not self._page and not self._flushed:
            return 0
        return end - max(self._begin, self.synced if self._flushed else self.written)

    def members(self, count: int, least: int) -> None:
        """Set the size of the SyncStateSet, and the least size for appends above `flushed`."""
        was_short = self._members < self._least
        self._members = count
        self._least = least
        failure = self.shortage()
        if failure is not None and not was_short:
            remedy = "start the other replicas, or lower it: headgate cluster set GROUP --min-in-sync"
            text = f"{failure.text}: sends above flushed are refused"
            self._events.stops(StoreEventKind.SHORT, _REPLICAS, "", text, remedy)
        elif failure is None and was_short:
            text = f"{count} replicas are in sync: sends above flushed are taken"
            self._events.goes_on(StoreEventKind.SHORT, _REPLICAS, text)

    def shortage(self) -> Failure | None:
        """Failure of appends above `flushed`; None while they are taken."""
        if self._members >= self._least:
            return None
        text = f"the SyncStateSet has {self._members} of the {self._least} members that `min_in_sync` asks for"
        return Failure(ErrorCode.STORE_UNAVAILABLE, text)

    def fail(self, failure: Failure) -> None:
        """Answer all waiting appends with `failure`: it is unknown whether they are kept."""
        both, self._page, self._flushed = (self._page, self._flushed), deque(), deque()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.stalled is not None:
            self._moves()
        for waiting in both:
            for _, effects in waiting:
                effects.fail(failure, self._events)

    def _moves(self) -> None:
        self.stalled = None
        text = "what waited for the other replicas is answered: writes are taken"
        self._events.goes_on(StoreEventKind.STALLED, _REPLICAS, text)

    def _poll_later(self) -> None:
        part_ns = self._timeout_ms * 1_000_000 // _PARTS
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + part_ns, self._poll)

    def _poll(self) -> None:
        self._timer = None
        limit_ns = self._clock.monotonic_ns() - self._timeout_ms * 1_000_000
        late: list[Done] = overdue([effects for waiting in (self._page, self._flushed) for _, effects in waiting], limit_ns)
        text = f"stored by the leader, but not by all replicas in sync within {self._timeout_ms} ms"
        self.late += len(late)
        self._still += 1
        if self._still > _PARTS and self.stalled is None and (self._page or self._flushed):
            why = f"the other replicas in sync have confirmed nothing for {self._timeout_ms} ms: writes go on when they do"
            self.stalled = Failure(ErrorCode.STORE_UNAVAILABLE, why)
            self._events.stops(StoreEventKind.STALLED, _REPLICAS, "", why, "look at the other replicas, and at the controllers")
        for done in late:
            self._events.run("the answer to an append", done, Failure(ErrorCode.FLUSH_TIMEOUT, text, copies=True))
        if self._page or self._flushed:
            self._poll_later()
