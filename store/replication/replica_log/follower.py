"""A replica that follows: it continues recovery up to the confirmed position, and leads after its promotion.

open:      marker of a restart of the log -> checkpoint -> the tail is proven, not applied
follow:    append -> sync -> confirm -> applied in short turns -> checkpoints
promote:   the rest is applied -> a store that leads
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from domain.errors import Failure, StoreError, lacks_descriptor
from domain.ports import Clock, Disk, Timer
from domain.replication.message import Era
from domain.replication.ports import LeaderStore, LogWork, ReplicaDataError
from domain.replication.reads import FollowerReads
from domain.store.store_event import Report, StoreEventKind, unheard
from store.checkpoint import derived_damage
from store.checkpoint.derived_damage import DerivedDamageError
from store.checkpoint.recovery import ABORT, lost_power, running
from store.disk_full.errors import probe
from store.disk_full.wait import FullDisk
from store.events import StoreEvents
from store.log import batch
from store.log.batch import Header
from store.log.promise import PromiseMark
from store.opening.recovered_log import StoreOpening
from store.replication.replica_log.applied import AppliedLog
from store.replication.replica_log.aside import LostLog, SetAside
from store.replication.replica_log.beginning import OURS, SUCCESSOR, finish_beginning, restart_log
from store.replication.replica_log.leader_log import StoredLeaderLog
from store.replication.replica_log.mendable import MendableSegments
from store.replication.replica_log.raw_log import RawLog
from store.replication.replica_log.view import FollowerView
from store.settings import StoreSettings
from store.steps import Turns

_SECOND_NS: Final = 1_000_000_000
_APPLY_NS: Final = 2_000_000
"""Length of a turn of applying, and of the pause after it."""


@final
class Follower:
    """`domain.replication.ports.FollowerLog` over a data directory. See `open_follower`.

    incarnation   identity of the log
    continues     FollowerLog.continues
    foreign       FollowerLog.foreign
    parts         FollowerLog.parts
    has_room      FollowerLog.has_room
    """

    def __init__(self, disk: Disk, clock: Clock, config: StoreSettings, events: StoreEvents) -> None:
        self._disk, self._clock, self._config, self._events = disk, clock, config, events
        self.incarnation = 0
        self.continues = 0
        self.foreign = False
        self._closed = self.has_room = False
        finish_beginning(disk)
        self._open(config.fresh_incarnation)

    def _open(self, fresh: int) -> None:
        """Open the log on the disk; `fresh`: identity for a log that cannot prove its own. Raises StoreError, OSError."""
        disk = self._disk
        opening = self._opening = StoreOpening(disk, self._clock, self._config, self._events)
        lost = lost_power(disk, self._config.boot)
        recovered = opening.load()
        before = opening.promise
        self.incarnation = before.incarnation
        successor = disk.read_all(SUCCESSOR) or b"0"
        self.continues = int(successor)
        if lost and opening.files.promise is not None:
            self.incarnation = fresh or before.incarnation + 1
            if not self.continues:
                self.continues = before.incarnation
                disk.replace(SUCCESSOR, b"%d\n" % self.continues)
        segments = opening.files.segments
        mark = self._mark = PromiseMark(disk, self._clock, lambda what, error: raw.stop(what, error))  # noqa: PLW0108
        room = FullDisk(self._clock, self._events, self._write_again, lambda what, error: raw.stop(what, error))  # noqa: PLW0108
        raw = self._raw = RawLog(segments, mark, room, self._events, _behind(opening), recovered.store_ms, self._clock)
        promise = before._replace(
            position=segments.end, epoch=raw.epoch, incarnation=self.incarnation, first=segments.first,
            store_ms=recovered.store_ms,
        )  # fmt: skip
        mark.begin(promise)
        self._promise = promise
        if raw.written == raw.first and disk.read_all(OURS) is None:
            disk.replace(OURS, b"")
        self.foreign = disk.read_all(OURS) is None
        disk.replace(ABORT, running(self._config.boot))
        applied = AppliedLog(opening, raw)
        self._view = FollowerView(opening, applied)
        self._checkpointer = opening.checkpointer(applied, opening.files.points)
        self._confirmed = opening.recovery.applied
        self._first = raw.first
        self._dropping = False
        self._spills = Turns(self._clock)
        self._scrub = Turns(self._clock)
        self._aside = SetAside(disk, self._clock, self._events, segments, raw)
        self._scrubs = opening.scrubber(lambda: raw.synced)
        self.parts = MendableSegments(
            segments,
            self._scrubs,
            self._clock,
            lambda: 0 if self.foreign else min(self._confirmed, raw.written),
            raw.roll,
            self._mended,
            opening.repairs,
        )
        self._apply_timer: Timer | None = None
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
        return self._opening.recovery.applied

    @property
    def broken(self) -> Failure | None:
        """FollowerLog.broken."""
        return self._raw.broken or self._opening.commit.broken

    @property
    def full(self) -> Failure | None:
        """FollowerLog.full."""
        return self._raw.full

    def _write_again(self) -> None:
        probe(self._disk)
        self._raw.write_again()
        self._aside.write_again()

    @property
    def work(self) -> LogWork:
        """FollowerLog.work."""
        raw = self._raw
        return raw.syncs.reported(self._events.counts[StoreEventKind.UNREADABLE])

    def eras(self) -> Sequence[Era]:
        """FollowerLog.eras."""
        return [era for era in self._raw.eras() if era.epoch or not self.foreign]

    def append(self, position: int, data: bytes) -> None:
        """FollowerLog.append."""
        self._raw.append(position, data)

    def sync(self, done: Callable[[], None]) -> None:
        """FollowerLog.sync."""
        self._raw.sync(done)

    def confirm(self, position: int) -> None:
        """FollowerLog.confirm."""
        if position > self._confirmed:
            self._confirmed = position
            self._apply_soon()

    def _apply_soon(self) -> None:
        if self._apply_timer is None:
            self._apply_timer = self._clock.call_at(self._clock.monotonic_ns(), self._apply)

    def _mended(self) -> None:
        """Continue to apply after the repair of a damaged part."""
        if not self._closed and self.applied < min(self._confirmed, self.behind):
            self._apply_soon()

    def cut(self, position: int, done: Callable[[], None]) -> None:
        """FollowerLog.cut."""
        if position < self.applied:
            raise ReplicaDataError(f"the log is applied up to {self.applied}: it cannot be cut at {position}")
        self._confirmed = min(self._confirmed, position)
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

    def promote(self, epoch: int) -> LeaderStore:
        """FollowerLog.promote."""
        raw, opening = self._raw, self._opening
        if raw.broken is not None:
            raise StoreError(raw.broken.text, "")
        if raw.synced < raw.written or not raw.idle:
            raise StoreError("the log of a replica has to be durable before it leads", "")
        self._view.close()
        self._confirmed = raw.written
        if not self._apply_until(-1):
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
        recovered = opening.applied()
        opening.promise = self._promise._replace(
            position=raw.written, epoch=epoch, first=raw.first, store_ms=recovered.store_ms, incarnation=self.incarnation
        )
        store = opening.store(recovered, opening.checkpointer(opening.commit, points), True)
        led = StoredLeaderLog(
            opening.commit, opening.files.segments, eras, begin, opening.scrubs, self._clock, self._events, opening.repairs,
            opening.admission,
        )  # fmt: skip
        return LeaderStore(store, led)

    def close(self) -> None:
        """FollowerLog.close."""
        if not self._closed:
            self._closed = True
            self._end()
            self._opening.repairs.close()
            self._raw.close()
            self._opening.index.files.segments.close()
            self._opening.keys.close()

    # Work

    def _end(self) -> None:
        """Stop the work of every second, applying, and serving."""
        self._view.close()
        for timer in (self._timer, self._apply_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._apply_timer = None
        self._spills.stop()
        self._scrub.stop()
        self._aside.stop()

    def _apply(self) -> None:
        self._apply_timer = None
        now = self._clock.monotonic_ns()
        if not self._apply_until(now + _APPLY_NS):
            self._apply_timer = self._clock.call_at(self._clock.monotonic_ns() + _APPLY_NS, self._apply)

    def _apply_until(self, end_ns: int) -> bool:
        """Apply confirmed batches of the log until `end_ns`, -1 for no limit. False when more are left, or without a file
        descriptor to read them with."""
        opening, most = self._opening, min(self._confirmed, self._raw.written)
        whole = True
        try:
            for header, data in self._batches(most):
                opening.apply(header, data)
                if 0 <= end_ns <= self._clock.monotonic_ns():
                    whole = False
                    break
        except OSError as error:
            whole = not lacks_descriptor(error)
            if whole:
                self._raw.stop("a read of the log", error)
        opening.ledger.replay.finish()
        if whole and self.applied < min(most, self._raw.behind):
            self._scrubs.suspect(self.applied)
        return whole

    def _batches(self, end: int) -> Iterator[tuple[Header, bytes]]:
        """Whole batches up to position `end` that are not applied. The caller applies each one before it takes the next.

        Fresh batches are not read and checked again. Raises OSError.
        """
        segments, fresh, recovery = self._opening.files.segments, self._raw.fresh, self._opening.recovery
        while recovery.applied < end:
            if fresh.has(recovery.applied) or fresh.has(segments.after(recovery.applied)):
                found = fresh.first()
                if found[0].position + found[0].size > end:
                    return
                yield found
                continue
            before = recovery.applied
            for found in segments.walk(before, True):
                if found[0].position + found[0].size > end:
                    return
                yield found
                if fresh.has(recovery.applied):
                    break
            if recovery.applied == before:
                return

    def _second(self) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + _SECOND_NS, self._second)
        if self._raw.broken is not None:
            return
        self._look_for_room()
        index = self._opening.index
        if not self._spills.busy:
            self._spills.run(index.spill(), lambda: None, lambda error: self._raw.failed("a write of the index", error))
        if not self._scrub.busy:
            self._scrub.run(self._scrubs.second(), lambda: None, lambda _error: None)
        self._checkpointer.check()
        self._opening.keys.drop_before(self._raw.first)
        self._drop()

    def _look_for_room(self) -> None:
        """Update `has_room`: True when this replica, as leader, would take messages. A probe write detects a quota that leaves
        no room in spite of free bytes; it is repeated until it succeeds."""
        if self._disk.free_ratio() < self._config.pressure_ratio:
            self._aside.make_room()
        free = self.full is None and self._disk.free_ratio() >= self._config.free_ratio_min
        if free and not self.has_room:
            try:
                probe(self._disk)
            except OSError:  # a full or failing disk: the next write reports it
                free = False
        self.has_room = free

    def _drop(self) -> None:
        """Delete the applied segments before `_first`, as soon as no checkpoint needs them."""
        segments = self._opening.files.segments
        bases = [each.base for each in segments.all[1:] if each.base <= min(self._first, self.applied)]
        if not bases or self._dropping:
            return
        self._dropping = True

        def dropped() -> None:
            self._dropping = False
            self._opening.index.log_start = segments.first

        self._checkpointer.cover(bases[-1], lambda: self._raw.drop_first(bases[-1], dropped))


def _behind(opening: StoreOpening) -> int:
    """Position behind the last batch of a log that was loaded. Raises OSError."""
    segments = opening.files.segments
    begin = behind = opening.recovery.applied
    for header, _ in segments.walk(behind, False):
        behind = header.position + header.size
    filler = begin - batch.FILLER_BYTES
    if behind == begin and filler >= segments.first and segments.active.base == begin:
        # Checkpoints of earlier versions may stand behind the filler that ends a segment.
        return filler if batch.is_filler(segments.read(filler, batch.FILLER_BYTES)) else begin
    return behind


def open_follower(disk: Disk, clock: Clock, config: StoreSettings, report: Report = unheard) -> Follower:
    """Open the log in `disk`'s data directory as that of a replica. Raises StoreError when an operator must act, and OSError.

    After a power failure the log has a new identity, `config.fresh_incarnation`: acknowledged unsynced batches may be lost.
    """
    events = StoreEvents(report)
    try:
        return Follower(disk, clock, config, events)
    except DerivedDamageError as error:
        derived_damage.set_checkpoints_aside(disk)
        cause = f"{error}; the checkpoints are set aside in {derived_damage.ASIDE}/, and the whole log is read"
        events.notify(StoreEventKind.REBUILT, error.file, cause, "", error)
        return Follower(disk, clock, config, events)
