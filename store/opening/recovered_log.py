"""Recovery of a log on one disk: its files, and the parts that are built from it and append to it.

RecoveredLog, whole -------------------------------------------> OpenStore      a node that is not replicated
RecoveredLog, up to the checkpoint --apply, apply, ... applied-> OpenStore      a replica that follows, and is promoted
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from domain.errors import StoreError
from domain.ports import Clock, Disk
from domain.store.store_event import StoreEventKind
from store.appends.append import Appender
from store.appends.effects import BatchEffects, StateEffects
from store.appends.writer import StoreWriter
from store.checkpoint import points as checkpoints
from store.checkpoint.checkpointer import CheckpointedLog, Checkpointer
from store.checkpoint.points import Points
from store.checkpoint.recovery import LogRecovery, Recovered
from store.delay.accompaniment import Accompaniment
from store.delay.timers import WheelTimers
from store.delay.wheel import Wheel
from store.deletion.compaction import Compaction, empty_at
from store.disk_full.admission import WriteAdmission
from store.events import StoreEvents
from store.keys.index import KeyIndex
from store.lease.journaled_tables import JournaledTables
from store.log import promise as promises
from store.log.batch import Header
from store.log.batch_writer import BatchWriter
from store.log.commit import GroupCommit
from store.log.damage import SuspectedSegments
from store.log.gap import lost_records
from store.log.open_batch import Effects
from store.log.promise import Promise, incarnation_at
from store.log.reader import RecordReader
from store.log.recent import TailCache
from store.log.scrub import Scrubber
from store.log.segment import FOLDER, Segments
from store.log.survey import Stretch
from store.opening.backup import BackupDisk
from store.queue.index import QueueIndex
from store.reads.hot import HotLog
from store.reads.listeners import StoreListeners
from store.reads.reading import Reading, WrittenLog
from store.reads.repair_waits import RepairWaits
from store.settings import StoreSettings, check_policy_of
from store.state.metadata import Catalogue
from store.state.port import StoredState
from store.state.view import Append, StateView
from store.transaction.open_transactions import OpenTransactions


@final
@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The files that an opening store finds on the disk.

    promise    content of the promise mark; None in a new directory
    index      the queues, without what the log holds behind the checkpoint
    """

    disk: BackupDisk
    points: Points
    promise: Promise | None
    segments: Segments
    index: QueueIndex


@final
class RecoveredLog:
    """A log, and the parts that recovery fills or that append to it. Nothing is appended before a store is opened over it.

    promise    promise of the last run; in a new directory the first one of this log
    source     what a checkpoint has besides the index
    """

    def __init__(self, disk: Disk, clock: Clock, config: StoreSettings, events: StoreEvents, whole: bool) -> None:
        """Recover the log: all of it is applied when `whole`; else the checkpoint is loaded, and the rest proven, for `apply`.

        Raises OSError, and StoreError, with the files closed, when an operator must act.
        """
        self.clock, self.config, self.events = clock, config, events
        files = self.files = _files(disk, config, events)
        disk, segments, index = files.disk, files.segments, files.index
        self.index = index
        self.listeners = StoreListeners(events)
        self.repairs = RepairWaits(clock, events)
        self.suspects = SuspectedSegments(segments)
        cache = TailCache(config.cache_bytes)
        self.keys = KeyIndex(disk, clock, config, self._write_failed)
        commit = self.commit = GroupCommit(
            disk, BatchWriter(segments, cache), clock, config, self._reached, self._before_write, self.keys.add, events
        )
        self.reader = RecordReader(self.suspects, cache)
        state = self.state = StateView()
        state.connect(self.reader.value)
        self.reading = Reading(index, self.reader, commit, events)
        self.hot = HotLog(index, commit, config.hot_bytes)
        timers = WheelTimers(index)
        self.accompaniment = Accompaniment(state)
        self.appender = Appender(commit, index, config, self._first_offset, timers.accepted)
        self.admission = WriteAdmission(commit, config, disk, events)
        writer = self.writer = StoreWriter(self.appender, self.admission, commit, config.durability)
        self.wheel = Wheel(timers, index, clock, self.reader, state, writer, self.accompaniment, events)
        self.transactions = OpenTransactions(
            index, clock, self.reader, state, writer, check_policy_of(config), self.accompaniment
        )
        ledger = self.ledger = JournaledTables(index, clock, writer, commit.faults, self.hot, events, self.listeners.freed)
        self.source = Compaction(commit, index, state, ledger, self.appender)
        self.metadata = Catalogue(
            config.durability, index, writer.append_changes, writer.append_made, self.source.drop_topic, state.keys,
            self.appender.unapplied,
        )  # fmt: skip
        effects = StateEffects(state, self.metadata, index, ledger)
        self._effects = BatchEffects(segments, commit, index, self.appender, effects, self.wheel, self.listeners, events)
        self.promise = files.promise or Promise(0, 0, config.fresh_incarnation or incarnation_at(clock))
        self.recovery = LogRecovery(disk, segments, index, state, effects, self.appender.tag_of, events, files.promise)
        self.result = self._recovered(whole)
        newest = files.points.newest.position
        for begin, behind in self.keys.load(newest, segments, segments.end if whole else self.recovery.applied):
            events.notify(
                StoreEventKind.DAMAGED, "", f"the log is damaged from {begin} to {behind}: its messages are not found by key",
                "run `headgate check` on the data directory",
            )  # fmt: skip

    def _recovered(self, whole: bool) -> Recovered:
        recovery, newest = self.recovery, self.files.points.newest
        try:
            if whole:
                recovered = recovery.run(newest)
            else:
                recovery.load(newest)
                recovered = recovery.prove()
        except StoreError:
            self.files.segments.close()
            self.index.files.segments.close()
            raise
        self.ledger.replay.finish()
        return recovered

    def _reached(self, batch: Effects) -> None:
        self._effects.reached(batch)

    def _before_write(self) -> None:
        self.ledger.write(self.commit.accepted.base)

    def _write_failed(self, what: str, error: OSError) -> None:
        self.commit.faults.failed(what, error)

    def _first_offset(self, topic: str, queue_id: int) -> int:
        return max(empty_at(self.state, topic, queue_id), lost_records(self.files.segments.gaps))

    def apply(self, header: Header, data: bytes) -> None:
        """Apply the next batch of a log that was not recovered as a whole."""
        self.recovery.apply(header, data)
        self.keys.read(header, data)

    def applied(self) -> Recovered:
        """Result of recovery for `OpenStore`, after all of the log is applied."""
        self.ledger.replay.finish()
        recovery = self.recovery
        recovery.finish()
        return Recovered(0, 0, 0, recovery.store_ms, 0, recovery.state_bytes)

    def checkpointer(self, log: CheckpointedLog, points: Points) -> Checkpointer:
        """Checkpointer of `log` that continues from `points`."""
        return Checkpointer(self.files.disk, self.clock, self.config, log, self.index, self.keys, self.source, points)

    def reads(self, log: WrittenLog, append: Append) -> tuple[Reading, Catalogue, StoredState]:
        """Ports that read the applied part of a log, up to `log`. `append` answers changes of the state."""
        reading = Reading(self.index, self.reader, log, self.events)
        return reading, self.metadata, StoredState(self.state, append, frozenset(), self.events, self.repairs)

    def scrubber(self, durable: Callable[[], int], incarnation: int) -> Scrubber:
        """Scrubber of the log of `incarnation` below the position `durable()`."""
        return Scrubber(self.suspects, durable, incarnation, self.config, self._damaged)

    def free_ratio(self) -> float:
        """Free share of the volume, 0 to 1; 1 while a backup keeps the files that could be deleted."""
        return 1.0 if self.files.disk.held else self.admission.free_ratio

    def _damaged(self, stretch: Stretch) -> None:
        cause = f"{stretch}; who reads it is refused, and the rest is served"
        remedy = "look at the disk; `headgate repair` sets the part aside while the node is stopped"
        self.events.notify(StoreEventKind.DAMAGED, stretch.file, cause, remedy)


def _files(disk: Disk, config: StoreSettings, events: StoreEvents) -> StoreFiles:
    held_disk = BackupDisk(disk)
    points = checkpoints.find(held_disk, events)
    index = QueueIndex(held_disk, config, points.newest.index_first, points.newest.index_end)
    _, promise, _ = promises.newest(held_disk)
    first = 0 if promise is None else promise.first
    segments = Segments(held_disk, FOLDER, first, first)
    segments.delete_left()
    return StoreFiles(held_disk, points, promise, segments, index)
