"""Group commit: the only way into the log. All appends of one turn of the loop are one write. Appends that are accepted during
a sync share the next sync, and are written just before it, unless one of them waits for the write only.

    append ... append -> turn: one write -> `page` answers -> sync (one at a time) -> `flushed` answers
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.histogram import Histogram
from domain.message import Message
from domain.ports import Clock, Timer
from domain.store_event import StoreEventKind
from store.config import StoreConfig
from store.events import StoreEvents
from store.full import is_full
from store.log import batch
from store.log.batch import Writer
from store.log.cache import TailCache
from store.log.confirmation import Confirmation
from store.log.full_disk import FullDisk
from store.log.open_batch import Effects, OpenBatch
from store.log.promise import Promise, PromiseMark
from store.log.segment import Segments
from store.log.sync_delay import SyncDelay
from store.log.sync_work import SyncWork, UnsyncedBatches
from store.log.timeouts import AppendTimeouts, LateAppends
from store.log.waiters import SyncWaiters
from store.state import change

HELD_BYTES_MAX: Final = 1024 * 1024
"""A batch that waits for its sync is written when it reaches this size: a longer write would block the loop."""


@final
class GroupCommit:
    """Writes batches and syncs the log.

    After a failed write or sync nothing is written: what a failed fsync left on the disk is unknown, and a second fsync may
    report success all the same. LateAppends appends fail, and reading goes on.

    base             base of the segment that the next batch goes to
    end              position after the last accepted byte
    written          position up to which the log is written
    _behind          position behind the last batch written; a filler may follow it
    synced           position up to which the log is durable
    store_ms         newest store time, in epoch ms
    mark             tells, behind each sync, what the log has promised
    writer           who the headers of new batches name
    broken           why nothing is written any more; None while the log works
    closed           True: it has not broken by itself
    writes, written_bytes, timeouts   counters since the start
    syncs            those that have ended, and the one under way
    state_bytes      bytes of state records written, or applied by recovery, since the start
    confirmation     the replicas that batches wait for; None: this log is not replicated
    appends          time from the acceptance of appends to their answers
    sync_times       time of syncs
    _open            the batch that appends go into
    _sealed          closed batches to write, in order; None closes the segment
    _unsynced        written batches that wait for a sync
    _scheduled       True when `_turn` will run at the end of this turn
    """

    def __init__(
        self, segments: Segments, cache: TailCache, clock: Clock, config: StoreConfig, reached: Callable[[Effects], None],
        before_write: Callable[[], None], index_keys: Callable[[Sequence[Message], Sequence[int], int, int, int], None],
        events: StoreEvents, mark: PromiseMark, probe: Callable[[], None],
    ) -> None:  # fmt: skip
        """`reached(effects)` is called when a batch has reached a level, in log order; `before_write()` before a turn's write;
        `index_keys(messages, places, first ms, last ms, base)` once for each batch written, while its sync is under way.
        `probe()` raises OSError while the disk has no room."""
        self._segments = segments
        self._cache = cache
        self._clock = clock
        self._config = config
        self._reached = reached
        self._before_write = before_write
        self._index_keys = index_keys
        self._events = events
        self._probe = probe
        self._open: OpenBatch | None = None
        self._sealed: list[OpenBatch | None] = []
        self._unsynced = UnsyncedBatches()
        self._scheduled = False
        self.base = segments.active.base
        self.syncs = SyncWork()
        self._flush_timer: Timer | None = None  # syncs writes that no append waits for
        self.timeouts = AppendTimeouts(clock, events, config.flush_timeout_ms, self._what_waits)
        self._sync_delay = SyncDelay()
        self._delay_timer: Timer | None = None  # ends the delay before a sync
        self._sync_waiters = SyncWaiters(events)
        self._full = FullDisk(clock, events, self._write_again, self.stop)
        self._rolling = False  # the segment has its filler, and its successor does not exist yet
        self.closed = False
        self.confirmation: Confirmation | None = None
        self.broken: Failure | None = None
        self._first_mark: Promise | None = None
        self.end = self.written = self._behind = segments.end
        self.synced = segments.first
        self.store_ms = 0
        self.writer = Writer(0, 0)
        self.mark = mark
        self.writes = self.written_bytes = self.state_bytes = 0
        self.appends, self.sync_times = Histogram(), Histogram()

    def close(self) -> None:
        """Stop writing and close the files, unless a sync under way still uses them."""
        for timer in (self._flush_timer, self._delay_timer):
            if timer is not None:
                timer.cancel()
        self.broken = self.broken or Failure(ErrorCode.STORE_UNAVAILABLE, "the store is closed")
        self.closed = True
        self._full.end()
        self.timeouts.end()
        self.mark.close()
        if not self.syncs.since_ns:
            self._segments.close()

    def begin(self, promise: Promise, covered: int) -> None:
        """Begin to append at the end of the log, after recovery: all of it is durable. On a full disk writes begin later.

        `promise` is that of the last run, with the incarnation of this one; the last batch ends at `covered`.
        """
        self._behind = covered
        self.end = self.written = self.synced = self._segments.end
        self.base = self._segments.active.base
        self.writer = Writer(promise.epoch, promise.incarnation)
        self.store_ms = promise.store_ms
        self._first_mark = promise._replace(position=self.end)
        try:
            self._begin_mark()
        except OSError as error:
            self.failed("a write of the promise mark", error)

    def _begin_mark(self) -> None:
        """Write the first mark of this run: no batch names its incarnation before. Raises OSError."""
        if self._first_mark is not None:
            self.mark.begin(self._first_mark)
            self._first_mark = None

    def lead(self) -> None:
        """From now on batches wait for other replicas: this one leads a store group."""
        self.confirmation = Confirmation(self._clock, self._events, self._config.flush_timeout_ms, self._reach, self.end)

    def confirm(self, written: int, synced: int) -> None:
        """All members of the SyncStateSet have the log up to these positions."""
        if self.confirmation is not None and self.broken is None:
            self.confirmation.confirm(written, synced)
            self._wake_sync_waiters()

    def depose(self, failure: Failure) -> None:
        """Take no more writes, and answer everything that waits with `failure`: another replica leads."""
        self.broken = self.broken or failure
        self._fail(failure)
        if self._open is not None:
            self._seal(self._open)
        self._write_sealed()

    def refusal(self) -> Failure | None:
        """Why nothing is written now: STORE_UNAVAILABLE; None while the log works."""
        return self.broken if self.broken is not None else self._full.failure

    def failed(self, what: str, error: OSError) -> None:
        """Take note that `what`, a write of the store, has failed: on a full disk writes go on later, else never."""
        if is_full(error):
            self.fill(what, error)
        else:
            self.stop(what, error)

    def fill(self, what: str, error: OSError) -> None:
        """Take no more writes until there is room: `what`, a write of the store that was undone, has found the disk full.

        What is accepted waits: it is written as soon as there is room, and answered FLUSH_TIMEOUT when that takes too long.
        """
        if self.broken is None and self._full.failure is None:
            self.timeouts.begin(self._clock.monotonic_ns())
            self._full.begin(what, error)

    @property
    def full(self) -> Failure | None:
        """Why nothing is written until there is room on the disk; None while there is."""
        return self._full.failure

    def _write_again(self) -> None:
        """Write what waits on a full disk. Raises OSError."""
        self._probe()
        self._begin_mark()
        self._write_sealed(True)

    @property
    def covered(self) -> int:
        """CheckpointedLog.covered."""
        return self.written if self.confirmation is None else self._behind

    def waiting_bytes(self) -> int:
        """Bytes accepted but not yet answered at their level."""
        if self.confirmation is not None and (unconfirmed := self.confirmation.unconfirmed(self.end)):
            return unconfirmed
        return self.end - (self.synced if self._unsynced.any else self.written)

    def room(self, size: int, state: int = 0) -> OpenBatch:
        """The open batch, with room for `size` bytes of records and `state` bytes of changes in the same segment."""
        current = self._open
        if current is not None and current.end + current.reserved + size + state - self.base <= self._config.segment_bytes:
            current.reserved += state
            self.wake()  # the batch may have been left open for the next sync, without a scheduled turn
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
        """Schedule the write at the end of this turn, with what `before_write` adds to it."""
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self._turn)

    def stamp(self) -> int:
        """The store time of a new batch, in epoch ms: the wall clock, but never decreasing, so that queues are sorted by it."""
        self.store_ms = max(self.store_ms, self._clock.wall_ms())
        return self.store_ms

    def roll(self) -> None:
        """Close the segment after the last accepted byte and begin the next one; does nothing when the segment is empty."""
        if self._open is not None:
            self._seal(self._open)
        if self.end == self.base:
            return
        self._sealed.append(None)
        self.end += batch.FILLER_BYTES
        self.base = self.end
        self.wake()

    def when_synced(self, done: Callable[[], None]) -> None:
        """Call `done` when everything written so far is durable; it is never called when the log breaks before.

        In a replicated group it is durable on all members of the SyncStateSet: no later leader is without it.
        """
        self._sync_waiters.add(self.written, done)
        if self.synced >= self.written:
            self._clock.call_soon(self._wake_sync_waiters)
        else:
            self._sync()

    @property
    def durable(self) -> int:
        """Position up to which `when_synced` has called back."""
        return self.synced if self.confirmation is None else min(self.synced, self.confirmation.synced)

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
        """True when the batch may stay open: all its appends wait for a sync, and the next sync cannot begin yet."""
        if self.refusal() is not None or current.page.pending or current.page.arrivals:
            return False
        if current.end - current.base > HELD_BYTES_MAX:
            return False
        if self.syncs.since_ns:
            return True
        return (
            self._delay_timer is not None
            and self._sync_delay.delay_ns(self._unsynced.appends + len(current.flushed.pending)) > 0
        )

    def _write_sealed(self, again: bool = False) -> None:
        """Write the sealed batches. On a full disk they wait for `FullDisk`, to which `again` raises its OSError."""
        if self._full.failure is not None and self.broken is None and not again:
            return
        written: list[OpenBatch] = []
        full: OSError | None = None
        while self._sealed:
            current = self._sealed[0]
            try:
                if self.broken is None:
                    self._write(current)
            except OSError as error:
                if is_full(error):
                    full = error
                    break
                self.stop("a write of the log", error)
            del self._sealed[0]
            if current is None:
                continue
            if self.broken is not None:
                current.page.fail(self.broken, self._events)
                current.flushed.fail(self.broken, self._events)
                continue
            if current.flushed.pending or current.flushed.arrivals:
                self._unsynced.add(current.end, current.flushed)
            if current.page.pending or current.page.arrivals:
                if self.confirmation is None:
                    self._reach(current.page)
                else:
                    self.confirmation.wait(current.end, current.page, False)
            written.append(current)
        if full is not None:
            self.fill("a write of the log", full)
        if self._unsynced.any:
            self._sync_or_delay()
        else:
            self._flush_later(self._clock.monotonic_ns())
        for current in written:
            if current.messages:
                self._index_keys(current.messages, current.places, current.first_ms, self.store_ms, current.base)
        if self.confirmation is not None and written:
            self.confirmation.told()
        if full is not None and again:
            raise full

    def _write(self, current: OpenBatch | None) -> None:
        if current is None:
            if not self._rolling:
                self._append(batch.FILLER)
                self.written = self._segments.end
                self._rolling = True
            self._segments.roll()
            self._rolling = False
            return
        state_at = current.end - current.base - len(current.parts[-1]) if current.changes else 0
        data = batch.encode(current.parts, current.base, self.store_ms, state_at, self.writer, self.synced)
        self._append(data)
        self.writes += 1
        self.written_bytes += len(data)
        if state_at:
            self.state_bytes += len(current.parts[-1])
        self.written = self._behind = current.end
        self._segments.active.newest_ms = self.store_ms
        records = current.parts[:-1] if current.changes else current.parts
        self._cache.add(current.places, records, len(data))

    def _append(self, data: bytes) -> None:
        position = self._segments.end
        self._segments.append(data)
        if self.confirmation is not None:
            self.confirmation.recent.add(position, data)

    def _flush_later(self, since_ns: int) -> None:
        """Schedule a sync one flush interval after `since_ns`, for writes that no append waits for."""
        if self._flush_timer is None and self.broken is None and self.written > self.synced:
            self._flush_timer = self._clock.call_at(since_ns + self._config.flush_interval_ms * 1_000_000, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        if self.written > self.synced:
            self._sync()

    def _sync(self) -> None:
        if self.syncs.since_ns or self.broken is not None:
            return
        began = self.syncs.begin(self._clock.monotonic_ns())
        if self._delay_timer is not None:
            self._delay_timer.cancel()
            self._delay_timer = None
        target = self.written
        self.timeouts.begin(began)

        def synced(error: OSError | None) -> None:
            if self.closed:
                self.syncs.fail()
                self._segments.close()
                return
            self.timeouts.end()
            if error is not None:
                self.syncs.fail()
                self.stop("a sync of the log", error)
                return
            now = self._clock.monotonic_ns()
            if self._sealed:
                self.timeouts.begin(now)
            took_ns = self.syncs.end(now)
            self.sync_times.add(took_ns / 1e9)
            self.synced = max(self.synced, target)
            self.mark.synced(self.synced, self.store_ms, self._segments.active.base)
            waited = self._unsynced.appends
            ready = self._unsynced.take(target)
            answered = waited - self._unsynced.appends
            current = self._open
            coming = len(current.flushed.pending) if current is not None else 0
            self._sync_delay.synced(answered, self._unsynced.appends + coming, took_ns)
            if self._unsynced.any or coming:
                self._sync_or_delay(coming)
            else:
                self._flush_later(began)
                if current is not None:
                    self.wake()
            for end, effects in ready:
                if self.confirmation is None:
                    self._reach(effects)
                else:
                    self.confirmation.wait(end, effects, True)
            if self.confirmation is not None:
                self.confirmation.told()
            self._wake_sync_waiters()

        self._segments.sync(synced)

    def _reach(self, effects: Effects) -> None:
        """The batch of the effects has reached its level."""
        if effects.pending:
            waited_ns = self._clock.monotonic_ns() - effects.pending[0].accepted_ns
            self.appends.add(waited_ns / 1e9, len(effects.pending))
        self._reached(effects)

    def _sync_or_delay(self, coming: int = 0) -> None:
        """Sync now, or after the delay for appends that are expected. `coming` appends are in the open batch.

        When `_turn` will run in this turn, it writes the open batch and comes back: a sync without that batch would be in vain.
        """
        if self.syncs.since_ns or self.broken is not None or self._scheduled:
            return
        delay_ns = self._sync_delay.delay_ns(self._unsynced.appends + coming)
        if delay_ns == 0:
            self._write_open()
            # The batch is still open when this turn will write it: the sync begins then, not now for nothing.
            if self._unsynced.any:
                self._sync()
        elif self._delay_timer is None:
            self._delay_timer = self._clock.call_at(self._clock.monotonic_ns() + delay_ns, self._delay_over)

    def _delay_over(self) -> None:
        self._delay_timer = None
        self._sync_delay.delay_in_vain()
        self._write_open()
        if self._unsynced.any:
            self._sync()

    def _write_open(self) -> None:
        """Write the batch that was left open, for a sync that begins now."""
        if self._open is not None and not self._scheduled:
            self._seal(self._open)
            self._write_sealed()

    def _wake_sync_waiters(self) -> None:
        if self._sync_waiters.synced(self.durable) and self.synced < self.written:
            self._sync()

    def _what_waits(self) -> LateAppends:
        self._write_open()
        held = [effects for sealed in self._sealed if sealed is not None for effects in (sealed.page, sealed.flushed)]
        return LateAppends(self._unsynced.effects(), held, bool(self.syncs.since_ns or held))

    def stop(self, what: str, error: OSError) -> None:
        """Take no more writes: `what`, a write of the store, has failed with `error`."""
        if self.broken is None:
            reason = f"{what} failed ({error.strerror or error}): the store takes no more writes until it is restarted"
            self.broken = Failure(ErrorCode.STORE_UNAVAILABLE, reason)
            remedy = "look at the disk and the kernel's log, then restart the node: it keeps what it can prove"
            self._events.tell(StoreEventKind.STOPPED, str(error.filename or ""), reason, remedy, error)
        self._fail(self.broken)
        if self._open is not None or self._sealed:
            self.wake()

    def _fail(self, failure: Failure) -> None:
        """Answer what is written and waits for its level with `failure`."""
        self._full.end()
        self.mark.close()
        unsynced = self._unsynced.clear()
        self._sync_waiters.clear()
        for effects in unsynced:
            effects.fail(failure, self._events)
        if self.confirmation is not None:
            self.confirmation.fail(failure)
