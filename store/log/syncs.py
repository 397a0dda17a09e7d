"""Syncs of a log: their times, the running one, and the batches that wait for one.

a batch with appends that wait for a sync --> at once, or after the delay for expected appends (sync_delay.py)
any other write                           --> one flush interval later
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import final

from domain.histogram import Histogram
from domain.ports import Clock, Timer
from domain.replication.ports import LogWork
from store.events import StoreEvents
from store.log.batch_writer import BatchWriter
from store.log.open_batch import AcceptedBatches, Effects, OpenBatch
from store.log.sync_delay import SyncDelay
from store.log.timeouts import AppendTimeouts
from store.settings import StoreSettings


@final
class SyncWork:
    """The syncs of one log, one at a time.

    since_ns   monotonic ns of the begin of the running one; 0: none runs
    """

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0
        self.since_ns = 0

    def begin(self, now_ns: int) -> int:
        """Begin a sync; returns `since_ns`."""
        self.since_ns = max(now_ns, 1)
        return self.since_ns

    def end(self, now_ns: int) -> int:
        """End the running sync after its success; returns its time."""
        took_ns = now_ns - self.since_ns
        self.since_ns = 0
        self.count += 1
        self.ns += took_ns
        return took_ns

    def fail(self) -> None:
        """End the running sync without counting it: it has failed, or its log is closed."""
        self.since_ns = 0

    def reported(self, errors: int) -> LogWork:
        """Count and time of the syncs for a replica's report, with `errors` of the log."""
        return LogWork(self.count, self.ns, self.since_ns, errors)


@final
class UnsyncedBatches:
    """Written batches, in log order, with appends that wait for a sync."""

    def __init__(self) -> None:
        self.appends = 0
        self._ends: deque[tuple[int, Effects]] = deque()

    @property
    def any(self) -> bool:
        """True while a batch waits."""
        return bool(self._ends)

    def add(self, end: int, effects: Effects) -> None:
        """Add a written batch that ends at `end`."""
        self._ends.append((end, effects))
        self.appends += len(effects.pending)

    def take(self, synced: int) -> list[tuple[int, Effects]]:
        """Remove and return (end, effects) of the batches that are durable up to `synced`, in order."""
        ready: list[tuple[int, Effects]] = []
        while self._ends and self._ends[0][0] <= synced:
            ready.append(self._ends.popleft())
            self.appends -= len(ready[-1][1].pending)
        return ready

    def effects(self) -> list[Effects]:
        """Effects of all waiting batches."""
        return [effects for _, effects in self._ends]

    def clear(self) -> list[Effects]:
        """Remove all waiting batches; returns their effects."""
        found = self.effects()
        self._ends.clear()
        self.appends = 0
        return found


@final
class LogSyncs:
    """Syncs of the log to the disk, which group commit begins.

    synced     position up to which the log is durable
    times      their times, in seconds
    _ended     True: the log takes no more writes, and no sync begins
    _closed    True: the running sync closes the files at its end
    """

    def __init__(
        self, log: BatchWriter, accepted: AcceptedBatches, clock: Clock, config: StoreSettings, events: StoreEvents,
        write: Callable[[], None], ended: Callable[[OSError | None], None], reach: Callable[[list[tuple[int, Effects]]], None],
    ) -> None:  # fmt: skip
        """`write()` writes the closed batches. At the end of each sync `ended(error)` is called, then, after a success,
        `reach(batches)` with (end, effects) of the batches that are durable now, in order."""
        self._log = log
        self._accepted = accepted
        self._clock = clock
        self._flush_ns = config.flush_interval_ms * 1_000_000
        self._write = write
        self._notify_ended = ended
        self._reach = reach
        self.synced = log.segments.first
        self.timeouts = AppendTimeouts(clock, events, config.flush_timeout_ms, self._what_waits)
        self.work = SyncWork()
        self.times = Histogram()
        self._unsynced = UnsyncedBatches()
        self._delay = SyncDelay()
        self._flush_timer: Timer | None = None
        self._delay_timer: Timer | None = None
        self._ended = self._closed = False

    def end(self) -> list[Effects]:
        """Begin no more syncs; returns the effects of the batches that waited for one."""
        self._ended = True
        return self._unsynced.clear()

    def close(self) -> None:
        """Begin no more syncs, and close the files; a running sync closes them at its end."""
        self._ended = self._closed = True
        for timer in (self._flush_timer, self._delay_timer):
            if timer is not None:
                timer.cancel()
        self.timeouts.end()
        if not self.work.since_ns:
            self._log.segments.close()

    @property
    def wanted(self) -> bool:
        """True while a written batch waits for a sync."""
        return self._unsynced.any

    def add(self, end: int, effects: Effects) -> None:
        """Add a written batch that ends at `end`, with appends that wait for a sync. `schedule` has to follow."""
        self._unsynced.add(end, effects)

    def may_wait(self, current: OpenBatch) -> bool:
        """True when the next sync cannot begin yet, or waits for more appends than those of `current`, the open batch."""
        if self.work.since_ns:
            return True
        waiting = self._unsynced.appends + len(current.flushed.pending)
        return self._delay_timer is not None and self._delay.delay_ns(waiting) > 0

    def schedule(self) -> None:
        """Schedule the next sync after a write."""
        if self._unsynced.any:
            self._sync_or_delay()
        else:
            self._flush_later(self._clock.monotonic_ns())

    def _flush_later(self, since_ns: int) -> None:
        """Schedule a sync one flush interval after `since_ns`, for writes that no append waits for."""
        if self._flush_timer is None and not self._ended and self._log.written > self.synced:
            self._flush_timer = self._clock.call_at(since_ns + self._flush_ns, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        if self._log.written > self.synced:
            self.sync()

    def sync(self) -> None:
        """Begin a sync, unless one is running."""
        if self.work.since_ns or self._ended:
            return
        began = self.work.begin(self._clock.monotonic_ns())
        if self._delay_timer is not None:
            self._delay_timer.cancel()
            self._delay_timer = None
        target = self._log.written
        self.timeouts.begin(began)

        def synced(error: OSError | None) -> None:
            if self._closed:
                self.work.fail()
                self._log.segments.close()
                return
            self.timeouts.end()
            if error is not None:
                self.work.fail()
                self._notify_ended(error)
            else:
                self._synced(target, began)

        self._log.segments.sync(synced)

    def _synced(self, target: int, began: int) -> None:
        """End a sync of the log up to `target`, which began at `began`, and begin the next one if batches wait for it."""
        now = self._clock.monotonic_ns()
        accepted, unsynced = self._accepted, self._unsynced
        if accepted.sealed:
            self.timeouts.begin(now)
        took_ns = self.work.end(now)
        self.times.add(took_ns / 1e9)
        self.synced = max(self.synced, target)
        self._notify_ended(None)
        waited = unsynced.appends
        ready = unsynced.take(target)
        answered = waited - unsynced.appends
        current = accepted.open
        coming = len(current.flushed.pending) if current is not None else 0
        self._delay.synced(answered, unsynced.appends + coming, took_ns)
        if unsynced.any or coming:
            self._sync_or_delay(coming)
        else:
            self._flush_later(began)
            if current is not None:
                accepted.wake()
        self._reach(ready)

    def _sync_or_delay(self, coming: int = 0) -> None:
        """Sync now, or after the delay for appends that are expected. `coming` appends are in the open batch.

        If the open batch is written in this turn, the sync is scheduled after that: a sync without it would be useless.
        """
        if self.work.since_ns or self._ended or self._accepted.scheduled:
            return
        delay_ns = self._delay.delay_ns(self._unsynced.appends + coming)
        if delay_ns == 0:
            self._write_open()
            # If the batch is still open, this turn will write it, and the sync begins then.
            if self._unsynced.any:
                self.sync()
        elif self._delay_timer is None:
            self._delay_timer = self._clock.call_at(self._clock.monotonic_ns() + delay_ns, self._delay_over)

    def _delay_over(self) -> None:
        self._delay_timer = None
        self._delay.delay_in_vain()
        self._write_open()
        if self._unsynced.any:
            self.sync()

    def _write_open(self) -> None:
        """Write the batch that was left open, for a sync that begins now."""
        if self._accepted.open is not None and not self._accepted.scheduled:
            self._accepted.seal()
            self._write()

    def _what_waits(self) -> tuple[list[Effects], list[Effects], int]:
        self._write_open()
        return self._unsynced.effects(), self._accepted.effects(), self.work.since_ns
