"""The log of a replica that follows: recovery continues in it up to the confirmed position, until the replica is promoted.

open:      marker of a restart of the log -> checkpoint -> the tail is proven, not applied
follow:    append -> sync -> confirm -> applied in short turns -> checkpoints
promote:   the rest is applied -> a store that leads
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import Failure, StoreError
from domain.ports import Clock, Disk, Timer
from domain.replication.message import Era
from domain.replication.ports import BatchMark, LeaderStore, LogWork, ReplicaDataError
from domain.replication.reads import FollowerReads
from domain.store.store_event import Report, StoreEventKind
from store.checkpoint.derived_damage import rebuilt
from store.checkpoint.recovery import ABORT, lost_power, running
from store.disk_full.admission import FreeSpace
from store.disk_full.errors import probe
from store.events import StoreEvents
from store.log import batch
from store.opening.open_store import OpenStore
from store.opening.recovered_log import RecoveredLog
from store.replication.replica_log.applied import AppliedLog
from store.replication.replica_log.aside import LostLog, SetAside
from store.replication.replica_log.batch_before import batch_before
from store.replication.replica_log.beginning import OURS, SUCCESSOR, finish_beginning, restart_log
from store.replication.replica_log.leader_log import StoredLeaderLog
from store.replication.replica_log.mendable import MendableSegments
from store.replication.replica_log.raw_log import RawLog
from store.replication.replica_log.view import FollowerView
from store.settings import StoreSettings
from store.steps import Turns

_SECOND_NS: Final = 1_000_000_000


@final
class Follower:
    """`domain.replication.ports.FollowerLog` over a data directory. See `open_follower`."""

    def __init__(self, disk: Disk, clock: Clock, config: StoreSettings, events: StoreEvents) -> None:
        self._disk, self._clock, self._config, self._events = disk, clock, config, events
        self.incarnation = 0
        self.continues = 0
        self.foreign = False
        self._closed = self.has_room = False
        self._space = FreeSpace(config.free_ratio_min)
        finish_beginning(disk)
        self._open(config.fresh_incarnation)

    def _open(self, fresh: int) -> None:
        """Open the log on the disk; `fresh`: identity for a log that cannot prove its own. Raises StoreError, OSError."""
        disk = self._disk
        lost = lost_power(disk, self._config.boot)
        log = self._log = RecoveredLog(disk, self._clock, self._config, self._events, False)
        recovered = log.result
        before = log.promise
        self.incarnation = before.incarnation
        successor = disk.read_all(SUCCESSOR) or b"0"
        self.continues = int(successor)
        if lost and log.files.promise is not None and not self.continues:
            # A log that continues another one has nothing of its own until the controllers know it, so it keeps its identity
            # when power is lost again: its registration may have been made, and the answer lost.
            self.incarnation = fresh or before.incarnation + 1
            self.continues = before.incarnation
            disk.replace(SUCCESSOR, b"%d\n" % self.continues)
        segments = log.files.segments
        raw = self._raw = RawLog(disk, segments, self._events, _behind(log), recovered.store_ms, self._clock, log.commit.time)
        promise = before._replace(
            position=segments.end, epoch=raw.epoch, incarnation=self.incarnation, first=segments.first,
            store_ms=recovered.store_ms,
        )  # fmt: skip
        raw.mark.begin(promise)
        self._promise = promise
        if raw.written == raw.first and disk.read_all(OURS) is None:
            disk.replace(OURS, b"")
        self.foreign = disk.read_all(OURS) is None
        disk.replace(ABORT, running(self._config.boot))
        applied = self._applied = AppliedLog(log, raw, self._clock)
        self._view = FollowerView(log, applied)
        self._checkpointer = log.checkpointer(applied, log.files.points)
        self._first = raw.first
        self._dropping = False
        self._spills = Turns(self._clock)
        self._scrub = Turns(self._clock)
        self._aside = SetAside(disk, self._clock, self._events, segments, raw)
        self._scrubs = log.scrubber(lambda: raw.synced, before.incarnation)
        self.parts = MendableSegments(
            segments,
            self._scrubs,
            self._clock,
            lambda: 0 if self.foreign else min(applied.confirmed, raw.written),
            raw.roll,
            [applied.go_on],
            log.repairs,
        )
        self._timer: Timer | None = self._clock.call_at(self._clock.monotonic_ns() + _SECOND_NS, self._second)

    # FollowerLog

    @property
    def first(self) -> int:
        """FollowerLog.first."""
        return self._raw.first

    @property
    def written(self) -> int:
        """FollowerLog.written."""
        return self._raw.written

    @property
    def behind(self) -> int:
        """FollowerLog.behind."""
        return self._raw.behind

    @property
    def synced(self) -> int:
        """FollowerLog.synced."""
        return self._raw.synced

    @property
    def applied(self) -> int:
        """FollowerLog.applied."""
        return self._log.recovery.applied

    @property
    def broken(self) -> Failure | None:
        """FollowerLog.broken."""
        return self._raw.faults.broken or self._log.commit.faults.broken

    @property
    def full(self) -> Failure | None:
        """FollowerLog.full."""
        return self._raw.faults.full

    @property
    def work(self) -> LogWork:
        """FollowerLog.work."""
        raw = self._raw
        return raw.syncs.reported(self._events.counts[StoreEventKind.UNREADABLE])

    def eras(self) -> Sequence[Era]:
        """FollowerLog.eras."""
        return [era for era in self._raw.eras() if era.epoch or not self.foreign]

    def batch_before(self, position: int) -> BatchMark | None:
        """FollowerLog.batch_before."""
        return batch_before(self._log.files.segments, position)

    def append(self, position: int, data: bytes) -> None:
        """FollowerLog.append."""
        self._raw.append(position, data)

    def sync(self, done: Callable[[], None]) -> None:
        """FollowerLog.sync."""
        self._raw.sync(done)

    def confirm(self, position: int) -> None:
        """FollowerLog.confirm."""
        self._applied.confirm(position)

    def cut(self, position: int, done: Callable[[], None]) -> None:
        """FollowerLog.cut."""
        if position < self.applied:
            raise ReplicaDataError(f"the log is applied up to {self.applied}: it cannot be cut at {position}")
        self._applied.confirmed = min(self._applied.confirmed, position)
        if position == self.written:
            self._clock.call_soon(done)
        elif position >= self.behind:
            self._raw.cut(position, done)  # a filler
        else:
            self._aside.cut(position, done)

    @property
    def reads(self) -> FollowerReads:
        """FollowerLog.reads."""
        return self._view

    @property
    def writer(self) -> int:
        """FollowerLog.writer."""
        return self._raw.writer

    def restart_log(self, first: int, incarnation: int, behind: bool, done: Callable[[Exception | None], None]) -> None:
        """FollowerLog.restart_log."""

        def counted(lost: LostLog) -> None:
            self.close()  # for good, when the disk fails below: no file is closed twice
            try:
                restart_log(self._disk, first, incarnation, lost.folder)
                self._open(incarnation)
            except (OSError, StoreError) as error:
                done(error)
                return
            self._closed = False
            if lost.end > lost.begin:
                lost.notify(self._events)
            done(None)

        self._aside.whole(behind, counted)

    def drop_before(self, first: int) -> None:
        """FollowerLog.drop_before."""
        self._first = max(self._first, first)

    def registered(self) -> None:
        """FollowerLog.registered."""
        if self._disk.size(SUCCESSOR) > 0:
            # Emptied before it is removed: a file that a power failure brings back would name the wrong log.
            self._disk.replace(SUCCESSOR, b"")
        self._disk.remove(SUCCESSOR)

    def end_checkpoints(self) -> None:
        """FollowerLog.end_checkpoints."""
        self._checkpointer.end()

    def promote(self, epoch: int) -> LeaderStore:
        """FollowerLog.promote."""
        raw, log = self._raw, self._log
        if raw.faults.broken is not None:
            raise StoreError(raw.faults.broken.text, "")
        if raw.synced < raw.written or not raw.idle:
            raise StoreError("the log of a replica has to be durable before it leads", "")
        self._view.close()
        self._applied.confirmed = raw.written
        if not self._applied.apply_until(-1):
            raise StoreError("there is no file descriptor to read the log with: this replica cannot lead", "")
        if self.applied < raw.behind:
            raise StoreError(f"the log is damaged at {self.applied}: this replica cannot lead", "")
        try:
            self._disk.replace(OURS, b"")
        except OSError as error:
            raise StoreError(f"the data directory cannot be written: {error}", OURS) from error
        eras, begin = raw.eras(), raw.behind
        self._end()
        points = self._checkpointer.end()
        raw.release()
        recovered = log.applied()
        promise = self._promise._replace(
            position=raw.written, epoch=epoch, first=raw.first, store_ms=recovered.store_ms, incarnation=self.incarnation
        )
        store = OpenStore(log, recovered, promise, points, True)
        led = StoredLeaderLog(store.parts, eras, begin, self._clock, store.state)
        return LeaderStore(store, led)

    def close(self) -> None:
        """FollowerLog.close."""
        if not self._closed:
            self._closed = True
            self._end()
            self._events.close()
            self._log.repairs.close()
            self._raw.close()
            self._log.index.files.segments.close()
            self._log.keys.close()

    # Work

    def _end(self) -> None:
        self._view.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._applied.end_turns()
        self._spills.stop()
        self._scrub.stop()
        self._aside.stop()

    def _second(self) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + _SECOND_NS, self._second)
        if self._raw.faults.broken is not None:
            return
        self._look_for_room()
        index = self._log.index
        if not self._spills.busy:
            self._spills.run(index.spill(), lambda: None, lambda error: self._raw.faults.failed("a write of the index", error))
        if not self._scrub.busy:
            self._scrub.run_unwatched(self._scrubs.second())
        self._checkpointer.check()
        self._log.keys.drop_before(self._raw.first)
        self._drop()

    def _look_for_room(self) -> None:
        """Update `has_room`: True when this replica, as leader, would take messages. A probe write detects a quota that leaves
        no room in spite of free bytes; it is repeated until it succeeds."""
        if self._disk.free_ratio() < self._config.pressure_ratio:
            self._aside.make_room()
        free = self.full is None and not self._space.is_low(self._disk.free_ratio())
        if free and not self.has_room:
            try:
                probe(self._disk)
            except OSError:  # a full or failing disk: the next write reports it
                free = False
        self.has_room = free

    def _drop(self) -> None:
        """Delete the applied segments before `_first`, as soon as no checkpoint needs them."""
        segments = self._log.files.segments
        bases = [each.base for each in segments.all[1:] if each.base <= min(self._first, self.applied)]
        if not bases or self._dropping:
            return
        self._dropping = True

        def dropped() -> None:
            self._dropping = False
            self._log.index.log_start = segments.first

        self._checkpointer.cover(bases[-1], lambda: self._raw.drop_first(bases[-1], dropped))


def _behind(log: RecoveredLog) -> int:
    """Position behind the last batch of a log that was loaded. Raises OSError."""
    segments = log.files.segments
    begin = behind = log.recovery.applied
    for header, _ in segments.walk(behind, False):
        behind = header.position + header.size
    filler = begin - batch.FILLER_BYTES
    if behind == begin and filler >= segments.first and segments.active.base == begin:
        # Checkpoints of earlier versions may stand behind the filler that ends a segment.
        return filler if batch.is_filler(segments.read(filler, batch.FILLER_BYTES)) else begin
    return behind


def open_follower(disk: Disk, clock: Clock, config: StoreSettings, report: Report) -> Follower:
    """Open the log in `disk`'s data directory as that of a replica. Raises StoreError when an operator must act, and OSError.

    After a power failure the log has a new identity, `config.fresh_incarnation`: acknowledged unsynced batches may be lost.
    """
    events = StoreEvents(report, clock)
    return rebuilt(disk, events, lambda: Follower(disk, clock, config, events))
