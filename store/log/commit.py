"""Group commit: all writes to the log go through it. The appends of one turn of the loop are one write. Appends accepted during
a sync share the next sync, and are written just before it, unless one of them waits for the write only.

    accepted ------> written ------> synced ------> on the other replicas, where the log has some
    AcceptedBatches  BatchWriter     LogSyncs       Confirmation
                     `page` answers  `flushed` answers     (both kinds of answers wait for the replicas there)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.histogram import Histogram
from domain.message.message import Message
from domain.ports import Clock, Disk
from domain.shortage import is_full
from store.disk_full.errors import probe
from store.disk_full.faults import WriteFaults
from store.events import StoreEvents
from store.log.batch import Writer
from store.log.batch_writer import BatchWriter
from store.log.confirmation import Confirmation
from store.log.open_batch import AcceptedBatches, Effects, OpenBatch
from store.log.promise import Promise, PromiseMark
from store.log.store_time import StoreTime
from store.log.syncs import LogSyncs
from store.settings import StoreSettings

HELD_BYTES_MAX: Final = 1024 * 1024
"""A batch that waits for its sync is written when it reaches this size: a longer write would block the loop."""


@final
class SyncWaiters:
    """Callbacks that wait, without an append, for the durability of the log up to a position."""

    def __init__(self, events: StoreEvents) -> None:
        self._events = events
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def add(self, position: int, done: Callable[[], None]) -> None:
        """Call `done` once the log is durable up to `position`."""
        self._waiting.append((position, done))

    def synced(self, position: int) -> bool:
        """Call the callbacks up to the durable `position`. True when others still wait."""
        ready = [done for wanted, done in self._waiting if wanted <= position]
        self._waiting = [waiter for waiter in self._waiting if waiter[0] > position]
        for done in ready:
            self._events.run("work that waits for a sync", done)
        return bool(self._waiting)

    def clear(self) -> None:
        """Drop all callbacks: the log is broken, and no more bytes become durable."""
        self._waiting.clear()


@final
class GroupCommit:
    """Writes batches and syncs the log.

    After a failed write or sync nothing is written: the effect of a failed fsync on the disk is unknown, and a second fsync may
    report success nevertheless. Later appends fail; reads continue.

    accepted         accepted batches that are not written; appends go there
    closed           True: the log was closed, and `faults.broken` is no fault
    time             by which messages are dated and kept
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
        self.time = StoreTime(clock, events)
        self.accepted = AcceptedBatches(segments.active.base, segments.end, clock, self.time, config, self._turn)
        self.log = log
        self._clock = clock
        self._flush_timeout_ms = config.flush_timeout_ms
        self._reached = reached
        self._before_write = before_write
        self._index_keys = index_keys
        self._events = events
        self.syncs = LogSyncs(
            log, self.accepted, clock, config, events, self._write_sealed, self._sync_ended, self._reach_synced
        )
        self._sync_waiters = SyncWaiters(events)
        self.faults = WriteFaults(clock, events, "the store takes no more writes", self._write_again, self._faulted)
        self.closed = False
        self.confirmation: Confirmation | None = None
        self._first_mark: Promise | None = None
        self.mark = PromiseMark(disk, clock, self.faults.stop)
        self.appends = Histogram()

    def close(self) -> None:
        """Stop writing and close the files; a running sync closes them at its end."""
        faults = self.faults
        faults.broken = faults.broken or Failure(ErrorCode.STORE_UNAVAILABLE, "the store is closed")
        self.closed = True
        faults.end()
        self._events.close()
        self.mark.close()
        self.syncs.close()

    def begin(self, promise: Promise, covered: int) -> None:
        """Begin to append at the end of the log, after recovery: all of it is durable. On a full disk writes begin later.

        promise   promise of the last run, with the incarnation of this run
        covered   end of the last batch
        """
        end = self.syncs.synced = self._segments.end
        self.accepted.begin(self._segments.active.base, end, promise.store_ms)
        self.log.begin(Writer(promise.epoch, promise.incarnation), covered)
        self._first_mark = promise._replace(position=end)
        try:
            self._begin_mark()
        except OSError as error:
            self.faults.failed("a write of the promise mark", error)

    def _begin_mark(self) -> None:
        """Write the first mark of this run, before any batch names its incarnation. Raises OSError."""
        if self._first_mark is not None:
            self.mark.begin(self._first_mark)
            self._first_mark = None

    def lead(self) -> None:
        """Let batches wait for other replicas from now on: this one leads a store group."""
        self.confirmation = Confirmation(self._clock, self._events, self._flush_timeout_ms, self._reach, self.end)
        self.log.recent = self.confirmation.recent

    def confirm(self, written: int, synced: int) -> None:
        """Take the positions up to which all members of the SyncStateSet have the log."""
        if self.confirmation is not None and self.faults.broken is None:
            self.confirmation.confirm(written, synced)
            self._wake_sync_waiters()

    def depose(self, failure: Failure) -> None:
        """Take no more writes, and answer all waiting appends with `failure`: another replica leads."""
        self.faults.broken = self.faults.broken or failure
        self.faults.end()
        self._fail(failure)
        self.accepted.seal()
        self._write_sealed()

    @property
    def stalled(self) -> Failure | None:
        """Failure of appends that wait for a sync or for other replicas, while earlier ones have waited for longer than the
        flush timeout without progress; None while they are taken."""
        stalled = self.syncs.timeouts.stalled
        if stalled is not None or self.confirmation is None:
            return stalled
        return self.confirmation.stalled

    def _faulted(self, failure: Failure, for_good: bool) -> None:
        """Answer what waits with `failure`, or let it wait for room: it is written as soon as there is room, and answered
        FLUSH_TIMEOUT when that takes too long."""
        if not for_good:
            self.syncs.timeouts.begin(self._clock.monotonic_ns())
            return
        self._fail(failure)
        if self.accepted.open is not None or self.accepted.sealed:
            self.accepted.wake()

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
    def synced(self) -> int:
        """Position up to which the log is durable."""
        return self.syncs.synced

    @property
    def newest_batch(self) -> int:
        """Position where the newest accepted batch begins."""
        current = self.accepted.open
        return self.accepted.end - 1 if current is None else current.base

    def reached(self, flushed: bool) -> int:
        """Position up to which appends at level `flushed`, or at `page`, are answered: here, or on the whole SyncStateSet."""
        if self.confirmation is None:
            return self.synced if flushed else self.written
        return self.confirmation.synced if flushed else self.confirmation.written

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
        return self.accepted.end - (self.syncs.synced if self.syncs.wanted else self.log.written)

    def unanswered_bytes(self) -> int:
        """`waiting_bytes` while appends are taken, else 0: while the disk or the replicas make no progress, appends are refused
        at once, and need not wait for the earlier ones."""
        if self.faults.refusal() is not None or self.stalled is not None:
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
            self.syncs.sync()

    @property
    def durable(self) -> int:
        """Position up to which `when_synced` has called back."""
        return self.synced if self.confirmation is None else min(self.synced, self.confirmation.synced)

    def _wake_sync_waiters(self) -> None:
        if self._sync_waiters.synced(self.durable) and self.synced < self.log.written:
            self.syncs.sync()

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
        if self.faults.refusal() is not None or current.page.pending or current.page.arrivals:
            return False
        if current.end - current.base > HELD_BYTES_MAX:
            return False
        return self.syncs.may_wait(current)

    def _write_sealed(self, again: bool = False) -> None:
        """Write the sealed batches. On a full disk they wait for `WriteFaults`, to which `again` raises its OSError."""
        faults = self.faults
        if faults.full is not None and faults.broken is None and not again:
            return
        written: list[OpenBatch] = []
        full: OSError | None = None
        accepted, log = self.accepted, self.log
        while accepted.sealed:
            current = accepted.sealed[0]
            try:
                if faults.broken is not None:
                    pass
                elif current is None:
                    log.close_segment()
                else:
                    log.write(current, accepted.store_ms, accepted.now_ms, self.syncs.synced)
            except OSError as error:
                if is_full(error):
                    full = error
                    break
                faults.stop("a write of the log", error)
            del accepted.sealed[0]
            if current is None:
                continue
            if faults.broken is not None:
                current.page.fail(faults.broken, self._events)
                current.flushed.fail(faults.broken, self._events)
                continue
            if current.flushed.pending or current.flushed.arrivals:
                self.syncs.add(current.end, current.flushed)
            if current.page.pending or current.page.arrivals:
                if self.confirmation is None:
                    self._reach(current.page)
                else:
                    self.confirmation.wait(current.end, current.page, False)
            written.append(current)
        if full is not None:
            faults.fill("a write of the log", full)
        self.syncs.schedule()
        for current in written:
            if current.messages:
                self._index_keys(current.messages, current.places, current.first_ms, accepted.store_ms, current.base)
        if self.confirmation is not None and written:
            for progressed in self.confirmation.listeners:
                progressed()
        if full is not None and again:
            raise full

    def _sync_ended(self, error: OSError | None) -> None:
        if error is not None:
            self.faults.stop("a sync of the log", error)
        else:
            self.mark.synced(self.synced, self.accepted.store_ms, self._segments.active.base)

    def _reach_synced(self, ready: list[tuple[int, Effects]]) -> None:
        for end, effects in ready:
            if self.confirmation is None:
                self._reach(effects)
            else:
                self.confirmation.wait(end, effects, True)
        if self.confirmation is not None:
            for progressed in self.confirmation.listeners:
                progressed()
        self._wake_sync_waiters()

    def _reach(self, effects: Effects) -> None:
        if effects.pending:
            waited_ns = self._clock.monotonic_ns() - effects.pending[0].accepted_ns
            self.appends.add(waited_ns / 1e9, len(effects.pending))
        self._reached(effects)

    def _fail(self, failure: Failure) -> None:
        self.mark.close()
        unsynced = self.syncs.end()
        self._sync_waiters.clear()
        for effects in unsynced:
            effects.fail(failure, self._events)
        if self.confirmation is not None:
            self.confirmation.fail(failure)
