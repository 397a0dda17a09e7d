"""Group commit: all writes to the log go through it. The appends of one turn of the loop are one write. Appends accepted during
a sync share the next sync, and are written just before it, unless one of them waits for the write only.

    accepted ------> written ------> synced ------> on the other replicas, where the log has some
    AcceptedBatches  BatchWriter     SyncWork       Confirmation
                     `page` answers  `flushed` answers     (both kinds of answers wait for the replicas there)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.histogram import Histogram
from domain.message.message import Message
from domain.ports import Clock, Disk, Timer
from domain.store.store_event import StoreEventKind
from store.disk_full.errors import is_full, probe
from store.disk_full.wait import FullDisk
from store.events import StoreEvents
from store.log.batch import Writer
from store.log.batch_writer import BatchWriter
from store.log.confirmation import Confirmation
from store.log.open_batch import AcceptedBatches, Effects, OpenBatch
from store.log.promise import Promise, PromiseMark
from store.log.sync_delay import SyncDelay
from store.log.sync_work import SyncWork, UnsyncedBatches
from store.log.timeouts import AppendTimeouts, LateAppends
from store.log.waiters import SyncWaiters
from store.settings import StoreSettings

HELD_BYTES_MAX: Final = 1024 * 1024
"""A batch that waits for its sync is written when it reaches this size: a longer write would block the loop."""


@final
class GroupCommit:
    """Writes batches and syncs the log.

    After a failed write or sync nothing is written: the effect of a failed fsync on the disk is unknown, and a second fsync may
    report success nevertheless. Later appends fail; reads continue.

    accepted         accepted batches that are not written; appends go there
    synced           position up to which the log is durable
    broken           failure after which nothing is written; None while the log works
    closed           True: the log was closed, and `broken` is no fault
    confirmation     the replicas that batches wait for; None: this log is not replicated
    """

    def __init__(
        self, disk: Disk, log: BatchWriter, clock: Clock, config: StoreSettings, reached: Callable[[Effects], None],
        before_write: Callable[[], None], index_keys: Callable[[Sequence[Message], Sequence[int], int, int, int], None],
        events: StoreEvents,
    ) -> None:  # fmt: skip
        """`reached(effects)` is called when a batch has reached a level, in log order; `before_write()` before a turn's write;
        `index_keys(messages, places, first ms, last ms, base)` once for each batch written, during its sync."""
        segments = self._segments = log.segments
        self._disk = disk
        self.accepted = AcceptedBatches(segments.active.base, segments.end, clock, config, self._turn)
        self.log = log
        self._clock = clock
        self._config = config
        self._reached = reached
        self._before_write = before_write
        self._index_keys = index_keys
        self._events = events
        self._unsynced = UnsyncedBatches()
        self.syncs = SyncWork()
        self._flush_timer: Timer | None = None  # syncs writes that no append waits for
        self.timeouts = AppendTimeouts(clock, events, config.flush_timeout_ms, self._what_waits)
        self._sync_delay = SyncDelay()
        self._delay_timer: Timer | None = None  # ends the delay before a sync
        self._sync_waiters = SyncWaiters(events)
        self._full = FullDisk(clock, events, self._write_again, self.stop)
        self.closed = False
        self.confirmation: Confirmation | None = None
        self.broken: Failure | None = None
        self._first_mark: Promise | None = None
        self.synced = segments.first
        self.mark = PromiseMark(disk, clock, self.stop)
        self.appends, self.sync_times = Histogram(), Histogram()

    def close(self) -> None:
        """Stop writing and close the files; a running sync closes them at its end."""
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

        promise   promise of the last run, with the incarnation of this run
        covered   end of the last batch
        """
        end = self.synced = self._segments.end
        self.accepted.begin(self._segments.active.base, end, promise.store_ms)
        self.log.begin(Writer(promise.epoch, promise.incarnation), covered)
        self._first_mark = promise._replace(position=end)
        try:
            self._begin_mark()
        except OSError as error:
            self.failed("a write of the promise mark", error)

    def _begin_mark(self) -> None:
        """Write the first mark of this run, before any batch names its incarnation. Raises OSError."""
        if self._first_mark is not None:
            self.mark.begin(self._first_mark)
            self._first_mark = None

    def lead(self) -> None:
        """Let batches wait for other replicas from now on: this one leads a store group."""
        self.confirmation = Confirmation(self._clock, self._events, self._config.flush_timeout_ms, self._reach, self.end)
        self.log.recent = self.confirmation.recent

    def confirm(self, written: int, synced: int) -> None:
        """Take the positions up to which all members of the SyncStateSet have the log."""
        if self.confirmation is not None and self.broken is None:
            self.confirmation.confirm(written, synced)
            self._wake_sync_waiters()

    def depose(self, failure: Failure) -> None:
        """Take no more writes, and answer all waiting appends with `failure`: another replica leads."""
        self.broken = self.broken or failure
        self._fail(failure)
        self.accepted.seal()
        self._write_sealed()

    def refusal(self) -> Failure | None:
        """Failure (STORE_UNAVAILABLE) because of which nothing is written now; None while the log works."""
        return self.broken if self.broken is not None else self._full.failure

    @property
    def stalled(self) -> Failure | None:
        """Failure of appends that wait for a sync or for other replicas, while earlier ones have waited for longer than the
        flush timeout without progress; None while they are taken."""
        if self.timeouts.stalled is not None or self.confirmation is None:
            return self.timeouts.stalled
        return self.confirmation.stalled

    def failed(self, what: str, error: OSError) -> None:
        """Handle the failure of `what`, a write of the store: `fill` on a full disk, else `stop`."""
        if is_full(error):
            self.fill(what, error)
        else:
            self.stop(what, error)

    def fill(self, what: str, error: OSError) -> None:
        """Take no more writes until there is room: `what`, a write of the store that was undone, has found the disk full.

        Accepted appends are written as soon as there is room, and are answered FLUSH_TIMEOUT when that takes too long.
        """
        if self.broken is None and self._full.failure is None:
            self.timeouts.begin(self._clock.monotonic_ns())
            self._full.begin(what, error)

    @property
    def full(self) -> Failure | None:
        """Failure while the disk has no room; None while it has."""
        return self._full.failure

    def _write_again(self) -> None:
        """Write the batches that wait for room. Raises OSError."""
        probe(self._disk)
        self._begin_mark()
        self._write_sealed(True)

    @property
    def end(self) -> int:
        """Position after the last accepted byte."""
        return self.accepted.end

    @property
    def written(self) -> int:
        """Position up to which the log is written."""
        return self.log.written

    @property
    def covered(self) -> int:
        """CheckpointedLog.covered."""
        return self.log.written if self.confirmation is None else self.log.behind_batch

    @property
    def state_bytes(self) -> int:
        """Bytes of state records written, or applied by recovery, since the start."""
        return self.log.state_bytes

    def waiting_bytes(self) -> int:
        """Bytes accepted but not yet answered at their level."""
        if self.confirmation is not None and (unconfirmed := self.confirmation.unconfirmed(self.accepted.end)):
            return unconfirmed
        return self.accepted.end - (self.synced if self._unsynced.any else self.log.written)

    def unanswered_bytes(self) -> int:
        """`waiting_bytes` while appends are taken, else 0: while the disk or the replicas make no progress, appends are refused
        at once, and need not wait for the earlier ones."""
        if self.refusal() is not None or self.stalled is not None:
            return 0
        return self.waiting_bytes()

    def when_synced(self, done: Callable[[], None]) -> None:
        """Call `done` when all bytes written so far are durable; never called if the log breaks before.

        In a replicated group they are durable on all members of the SyncStateSet: each later leader has them.
        """
        self._sync_waiters.add(self.log.written, done)
        if self.synced >= self.log.written:
            self._clock.call_soon(self._wake_sync_waiters)
        else:
            self._sync()

    @property
    def durable(self) -> int:
        """Position up to which `when_synced` has called back."""
        return self.synced if self.confirmation is None else min(self.synced, self.confirmation.synced)

    def _turn(self) -> None:
        self._before_write()
        accepted = self.accepted
        accepted.scheduled = False
        current = accepted.open
        if current is not None and (accepted.sealed or not self._may_wait(current)):
            accepted.seal()
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
        accepted, log = self.accepted, self.log
        while accepted.sealed:
            current = accepted.sealed[0]
            try:
                if self.broken is not None:
                    pass
                elif current is None:
                    log.close_segment()
                else:
                    log.write(current, accepted.store_ms, self.synced)
            except OSError as error:
                if is_full(error):
                    full = error
                    break
                self.stop("a write of the log", error)
            del accepted.sealed[0]
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
                self._index_keys(current.messages, current.places, current.first_ms, accepted.store_ms, current.base)
        if self.confirmation is not None and written:
            for progressed in self.confirmation.listeners:
                progressed()
        if full is not None and again:
            raise full

    def _flush_later(self, since_ns: int) -> None:
        """Schedule a sync one flush interval after `since_ns`, for writes that no append waits for."""
        if self._flush_timer is None and self.broken is None and self.log.written > self.synced:
            self._flush_timer = self._clock.call_at(since_ns + self._config.flush_interval_ms * 1_000_000, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        if self.log.written > self.synced:
            self._sync()

    def _sync(self) -> None:
        if self.syncs.since_ns or self.broken is not None:
            return
        began = self.syncs.begin(self._clock.monotonic_ns())
        if self._delay_timer is not None:
            self._delay_timer.cancel()
            self._delay_timer = None
        target = self.log.written
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
            if self.accepted.sealed:
                self.timeouts.begin(now)
            took_ns = self.syncs.end(now)
            self.sync_times.add(took_ns / 1e9)
            self.synced = max(self.synced, target)
            self.mark.synced(self.synced, self.accepted.store_ms, self._segments.active.base)
            waited = self._unsynced.appends
            ready = self._unsynced.take(target)
            answered = waited - self._unsynced.appends
            current = self.accepted.open
            coming = len(current.flushed.pending) if current is not None else 0
            self._sync_delay.synced(answered, self._unsynced.appends + coming, took_ns)
            if self._unsynced.any or coming:
                self._sync_or_delay(coming)
            else:
                self._flush_later(began)
                if current is not None:
                    self.accepted.wake()
            for end, effects in ready:
                if self.confirmation is None:
                    self._reach(effects)
                else:
                    self.confirmation.wait(end, effects, True)
            if self.confirmation is not None:
                for progressed in self.confirmation.listeners:
                    progressed()
            self._wake_sync_waiters()

        self._segments.sync(synced)

    def _reach(self, effects: Effects) -> None:
        if effects.pending:
            waited_ns = self._clock.monotonic_ns() - effects.pending[0].accepted_ns
            self.appends.add(waited_ns / 1e9, len(effects.pending))
        self._reached(effects)

    def _sync_or_delay(self, coming: int = 0) -> None:
        """Sync now, or after the delay for appends that are expected. `coming` appends are in the open batch.

        If `_turn` will run in this turn, it writes the open batch and calls this again: a sync without it would be useless.
        """
        if self.syncs.since_ns or self.broken is not None or self.accepted.scheduled:
            return
        delay_ns = self._sync_delay.delay_ns(self._unsynced.appends + coming)
        if delay_ns == 0:
            self._write_open()
            # If the batch is still open, this turn will write it, and the sync begins then.
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
        if self.accepted.open is not None and not self.accepted.scheduled:
            self.accepted.seal()
            self._write_sealed()

    def _wake_sync_waiters(self) -> None:
        if self._sync_waiters.synced(self.durable) and self.synced < self.log.written:
            self._sync()

    def _what_waits(self) -> LateAppends:
        self._write_open()
        held = self.accepted.effects()
        return LateAppends(self._unsynced.effects(), held, self.syncs.since_ns)

    def stop(self, what: str, error: OSError) -> None:
        """Take no more writes: `what`, a write of the store, has failed with `error`."""
        if self.broken is None:
            reason = f"{what} failed ({error.strerror or error}): the store takes no more writes until it is restarted"
            self.broken = Failure(ErrorCode.STORE_UNAVAILABLE, reason)
            remedy = "look at the disk and the kernel's log, then restart the node: it keeps what it can prove"
            self._events.notify(StoreEventKind.STOPPED, str(error.filename or ""), reason, remedy, error)
        self._fail(self.broken)
        if self.accepted.open is not None or self.accepted.sealed:
            self.accepted.wake()

    def _fail(self, failure: Failure) -> None:
        self._full.end()
        self.mark.close()
        unsynced = self._unsynced.clear()
        self._sync_waiters.clear()
        for effects in unsynced:
            effects.fail(failure, self._events)
        if self.confirmation is not None:
            self.confirmation.fail(failure)
