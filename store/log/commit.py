"""Group commit: the only way into the log. All appends of one loop turn are one write; all that comes during a sync shares the
next, and is written with it unless somebody waits for the write itself.

    append ... append -> turn: one write -> `page` answers -> sync (one at a time) -> `flushed` answers
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.message import Message
from domain.ports import Clock, Timer
from store.config import StoreConfig
from store.log import batch
from store.log.cache import TailCache
from store.log.open_batch import Done, Effects, OpenBatch
from store.log.segment import Segments
from store.log.sync_delay import SyncDelay
from store.log.waiters import SyncWaiters
from store.state import change

HELD_BYTES_MAX: Final = 1024 * 1024
"""A batch that waits for its sync is written when it is this long: one write of more would keep the loop."""


@final
class GroupCommit:
    """Writes and syncs. `reached(effects)` is called when a level holds, in log order within a level.

    `index_keys(messages, places, first ms, last ms, base)` is called once for each batch written, while its sync is under way.

    After a failed write or sync nothing is written any more: what a failed fsync left on the disk is not known, and asking
    again would be told a lie. `broken` says what happened; what waited is failed; reading goes on.
    """

    def __init__(
        self, segments: Segments, cache: TailCache, clock: Clock, config: StoreConfig, reached: Callable[[Effects], None],
        before_write: Callable[[], None], index_keys: Callable[[Sequence[Message], Sequence[int], int, int, int], None],
    ) -> None:  # fmt: skip
        self._segments = segments
        self._cache = cache
        self._clock = clock
        self._config = config
        self._reached = reached
        self._before_write = before_write
        self._index_keys = index_keys
        self._open: OpenBatch | None = None
        self._sealed: list[OpenBatch | None] = []
        self._unsynced: deque[tuple[int, Effects]] = deque()
        self._scheduled = False
        self.base = segments.active.base
        self._syncing = False
        self._flush_timer: Timer | None = None
        self._timeout_timer: Timer | None = None
        self._sync_delay = SyncDelay()
        self._delay_timer: Timer | None = None
        self._waiting = 0
        self._sync_waiters = SyncWaiters()
        self.broken: Failure | None = None
        self.end = segments.end
        self.written = segments.end
        self.synced = segments.first
        self.store_ms = 0
        self.writes = 0
        self.syncs = 0
        self.sync_ns = 0
        self.written_bytes = 0

    def close(self) -> None:
        """Let go of the log. A sync that is under way keeps its handle."""
        for timer in (self._flush_timer, self._timeout_timer, self._delay_timer):
            if timer is not None:
                timer.cancel()
        self.broken = self.broken or Failure(ErrorCode.STORE_UNAVAILABLE, "the store is closed")
        if not self._syncing:
            self._segments.close()

    def begin(self, durable: int) -> None:
        """The log has been read and cut: appends go to its end. What stands below `durable` is known to be."""
        self.end = self.written = self._segments.end
        self.base = self._segments.active.base
        self.synced = min(durable, self.end)

    def stop(self, what: str, error: OSError) -> None:
        """Something else that must not fail has failed: take no more writes."""
        self._stop_writing(what, error)

    def waiting_bytes(self) -> int:
        """Bytes accepted but not yet answered at their level."""
        return self.end - (self.synced if self._unsynced else self.written)

    def room(self, size: int, state: int = 0) -> OpenBatch:
        """The open batch, with room for `size` more bytes of records and `state` of changes: a batch never spans segments."""
        current = self._open
        if current is not None and current.end + current.reserved + size + state - self.base <= self._config.segment_bytes:
            current.reserved += state
            self.wake()  # it may have been left open by those who wait for a sync, or for nothing
            return current
        if current is not None:
            self._seal(current)
        if self.end + batch.HEADER_BYTES + change.RECORD_OVERHEAD_BYTES + size + state - self.base > self._config.segment_bytes:
            self.roll()
        current = self._open = OpenBatch(self.end, self.stamp(), self._clock.monotonic_ns())
        current.reserved += state
        self.end = current.end
        self.wake()
        return current

    def wake(self) -> None:
        """See to it that this turn ends with a write, for what `before_write` will add."""
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self._turn)

    def stamp(self) -> int:
        """Store time in ms: the wall clock, but never going back, so that a queue can be searched by it."""
        self.store_ms = max(self.store_ms, self._clock.wall_ms())
        return self.store_ms

    def roll(self) -> None:
        """Close the segment behind what has been accepted and begin the next one; nothing when it is empty."""
        if self._open is not None:
            self._seal(self._open)
        if self.end == self.base:
            return
        self._sealed.append(None)
        self.end += batch.FILLER_BYTES
        self.base = self.end
        self.wake()

    def when_synced(self, done: Callable[[], None]) -> None:
        """Call `done` when all that is written now is durable; never when the store breaks before."""
        self._sync_waiters.add(self.written, done)
        if self.synced >= self.written:
            self._clock.call_soon(self._wake_sync_waiters)
        else:
            self._sync()

    def _seal(self, current: OpenBatch) -> None:
        self._open = None
        current.seal(self.store_ms, self._config.store_host)
        self.end = current.end
        self._sealed.append(current)

    def _turn(self) -> None:
        self._before_write()
        self._scheduled = False
        current = self._open
        if current is not None and (self._sealed or not self._may_wait(current)):
            self._seal(current)
        self._write_sealed()

    def _may_wait(self, current: OpenBatch) -> bool:
        """True while nobody would gain by a write now: all of the batch is for a sync that cannot begin yet, so it may grow."""
        if self.broken is not None or current.page.pending or current.page.arrivals:
            return False
        if current.end - current.base > HELD_BYTES_MAX:
            return False
        if self._syncing:
            return True
        return self._delay_timer is not None and self._sync_delay.delay_ns(self._waiting + len(current.flushed.pending)) > 0

    def _write_sealed(self) -> None:
        written: list[OpenBatch] = []
        while self._sealed:
            current = self._sealed.pop(0)
            try:
                if self.broken is None:
                    self._write(current)
            except OSError as error:
                self._stop_writing("a write of the log", error)
            if current is None:
                continue
            if self.broken is not None:
                self._fail(current.page)
                self._fail(current.flushed)
                continue
            if current.flushed.pending or current.flushed.arrivals:
                self._unsynced.append((current.end, current.flushed))
                self._waiting += len(current.flushed.pending)
            if current.page.pending or current.page.arrivals:
                self._reached(current.page)
            written.append(current)
        if self._unsynced:
            self._sync_or_delay()
        else:
            self._flush_later(self._clock.monotonic_ns())
        for current in written:
            if current.messages:
                self._index_keys(current.messages, current.places, current.first_ms, self.store_ms, current.base)

    def _write(self, current: OpenBatch | None) -> None:
        if current is None:
            self._segments.append(batch.FILLER)
            self.written = self._segments.end
            self._segments.roll()
            return
        state_at = current.end - current.base - len(current.parts[-1]) if current.changes else 0
        data = batch.encode(current.parts, current.base, self.store_ms, state_at)
        self._segments.append(data)
        self.writes += 1
        self.written_bytes += len(data)
        self.written = current.end
        self._segments.active.newest_ms = self.store_ms
        records = current.parts[:-1] if current.changes else current.parts
        self._cache.add(current.places, records, len(data))

    def _flush_later(self, since_ns: int) -> None:
        """What was written since then is durable soon, also when nobody waits for it."""
        if self._flush_timer is None and self.broken is None and self.written > self.synced:
            due = since_ns + self._config.flush_interval_ms * 1_000_000
            self._flush_timer = self._clock.call_at(due, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        if self.written > self.synced:
            self._sync()

    def _sync(self) -> None:
        if self._syncing or self.broken is not None:
            return
        self._syncing = True
        if self._delay_timer is not None:
            self._delay_timer.cancel()
            self._delay_timer = None
        target = self.written
        began = self._clock.monotonic_ns()
        if self._timeout_timer is None:
            self._timeout_timer = self._clock.call_at(began + self._config.flush_timeout_ms * 1_000_000, self._answer_timeouts)

        def synced(error: OSError | None) -> None:
            self._syncing = False
            if self._timeout_timer is not None:
                self._timeout_timer.cancel()
                self._timeout_timer = None
            if error is not None:
                self._stop_writing("a sync of the log", error)
                return
            took_ns = self._clock.monotonic_ns() - began
            self.syncs += 1
            self.sync_ns += took_ns
            self.synced = max(self.synced, target)
            ready: list[Effects] = []
            answered = 0
            while self._unsynced and self._unsynced[0][0] <= target:
                ready.append(self._unsynced.popleft()[1])
                answered += len(ready[-1].pending)
            self._waiting -= answered
            current = self._open
            coming = len(current.flushed.pending) if current is not None else 0
            self._sync_delay.synced(answered, self._waiting + coming, took_ns)
            if self._unsynced or coming:
                self._sync_or_delay(coming)
            else:
                self._flush_later(began)
                if current is not None:
                    self.wake()
            for effects in ready:
                self._reached(effects)
            self._wake_sync_waiters()

        self._segments.sync(synced)

    def _sync_or_delay(self, coming: int = 0) -> None:
        """Sync now, or when those have come who are about to; `coming` are in the batch that is still open."""
        if self._syncing or self.broken is not None:
            return
        delay_ns = self._sync_delay.delay_ns(self._waiting + coming)
        if delay_ns == 0:
            self._write_open()
            self._sync()
        elif self._delay_timer is None:
            self._delay_timer = self._clock.call_at(self._clock.monotonic_ns() + delay_ns, self._delay_over)

    def _delay_over(self) -> None:
        self._delay_timer = None
        self._sync_delay.delay_in_vain()
        self._write_open()
        if self._unsynced:
            self._sync()

    def _write_open(self) -> None:
        """Write what has been left open for a sync that begins now."""
        if self._open is not None and not self._scheduled:
            self._seal(self._open)
            self._write_sealed()

    def _wake_sync_waiters(self) -> None:
        if self._sync_waiters.synced(self.synced):
            self._sync()

    def _answer_timeouts(self) -> None:
        self._timeout_timer = None
        self._write_open()
        now = self._clock.monotonic_ns()
        limit = self._config.flush_timeout_ms * 1_000_000
        failure = Failure(ErrorCode.FLUSH_TIMEOUT, f"stored, but not flushed within {self._config.flush_timeout_ms} ms")
        told: list[Done] = []
        for _, effects in self._unsynced:
            for pending in effects.pending:
                if pending.done is not None and now - pending.accepted_ns >= limit:
                    told.append(pending.done)
                    pending.done = None
        if self._syncing:
            self._timeout_timer = self._clock.call_at(now + limit // 4, self._answer_timeouts)
        for done in told:
            done(failure)

    def _stop_writing(self, what: str, error: OSError) -> None:
        if self.broken is None:
            reason = f"{what} failed ({error.strerror or error}): the store takes no more writes until it is restarted"
            self.broken = Failure(ErrorCode.STORE_UNAVAILABLE, reason)
        for _, effects in self._unsynced:
            self._fail(effects)
        self._unsynced.clear()
        self._waiting = 0
        self._sync_waiters.clear()
        if self._open is not None:
            self.wake()

    def _fail(self, effects: Effects) -> None:
        assert self.broken is not None
        for pending in effects.pending:
            done, pending.done = pending.done, None
            if done is not None:
                done(self.broken)
