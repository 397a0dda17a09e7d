"""The opening of a store: the parts of a log on one disk, made and connected, then brought up to date from the log.

made --recover-----------------------------------------> store()      a node that is not replicated
made --load--> the checkpoint --apply, apply, ...------> store()      a replica that follows, and is promoted
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

from domain.errors import StoreError
from domain.ports import Clock, Disk
from domain.store.store_event import StoreEventKind
from store.appends.append import Appender
from store.appends.client_appends import ClientAppends, Outbox
from store.appends.effects import BatchEffects, StateEffects
from store.appends.once import OnceAppends
from store.appends.writer import StoreWriter
from store.checkpoint import points as checkpoints
from store.checkpoint.checkpointer import CheckpointedLog, Checkpointer
from store.checkpoint.points import Points
from store.checkpoint.recovery import LogRecovery, Recovered
from store.delay.accompaniment import Accompaniment
from store.delay.recall import TimerRecall
from store.delay.timers import WheelTimers
from store.delay.wheel import MEND_MS, Wheel
from store.deletion.compaction import Compaction, empty_at
from store.deletion.read_holds import ReadHolds
from store.deletion.retention import Retention
from store.disk_full.admission import WriteAdmission
from store.disk_full.errors import probe
from store.events import StoreEvents
from store.keys.index import KeyIndex
from store.keys.search import KeySearch
from store.lease.call import REPAIRED_MS, UNREADABLE_MS
from store.lease.group_removal import GroupRemoval
from store.lease.journaled_tables import JournaledTables
from store.lease.lease_count import LeaseCount
from store.lease.lease_journal import LeaseJournal
from store.lease.lease_records import LeaseSource
from store.lease.leases import StoredLeases
from store.lease.lite_queues import LiteQueueRemoval, StoredLiteQueues
from store.lease.member_pulls import StoredMemberPulls
from store.lease.peek import LeasePeek
from store.lease.positions import StoredPositions
from store.lease.release import LeaseRelease
from store.log import promise as promises
from store.log.batch import Header
from store.log.cache import TailCache
from store.log.commit import GroupCommit
from store.log.open_batch import Effects
from store.log.promise import Promise, PromiseMark, incarnation_at
from store.log.reader import RecordReader
from store.log.scrub import Scrubber
from store.log.segment import FOLDER, Segments
from store.log.segment_ends import date_segments
from store.log.survey import Stretch
from store.opening.backup import HeldBackups
from store.opening.backup_disk import BackupDisk
from store.opening.housekeeping import Housekeeping
from store.opening.message_log import StoredLog
from store.opening.open_store import LogStore
from store.opening.parts import StoreFiles, StoreParts
from store.queue.index import QueueIndex
from store.reads.hot import HotLog
from store.reads.listeners import StoreListeners
from store.reads.reading import Reading, WrittenLog
from store.reads.repair_waits import RepairWaits
from store.reads.startup_queue import StartupQueue
from store.settings import StoreSettings, check_policy_of
from store.state.metadata import Catalogue
from store.state.port import StoredState
from store.state.view import Append, StateView
from store.transaction.open_transactions import OpenTransactions


@final
class StoreOpening:
    """One opening. Where two parts call each other, a lambda stands for the one that is made later.

    files      the files on the disk
    commit     group commit, which takes nothing before `store`
    ledger     lease tables
    keys       the key index; empty before `load_keys`
    index      the queues
    recovery   reads the log
    source     what a checkpoint has besides the index
    repairs    reads that wait for a repair of the log
    promise    promise of the last run; in a new directory the first one of this log
    scrubs     the scrubber of the open store
    admission  whether writes are taken now
    """

    scrubs: Scrubber

    def __init__(self, disk: Disk, clock: Clock, config: StoreSettings, events: StoreEvents) -> None:
        """Find the files, and create the parts that recovery fills. Raises StoreError and OSError."""
        self._clock, self._config, self._events = clock, config, events
        files = self.files = _files(disk, config, events)
        self._disk = disk = files.disk
        segments, index = files.segments, files.index
        self.index = index
        self._listeners = StoreListeners(events)
        self.repairs = RepairWaits(clock, events)
        cache, state = TailCache(config.cache_bytes), StateView()
        self._state = state
        mark = PromiseMark(disk, clock, lambda what, error: commit.stop(what, error))  # noqa: PLW0108
        keys = self.keys = KeyIndex(disk, clock, config, lambda what, error: commit.failed(what, error))  # noqa: PLW0108
        commit = self.commit = GroupCommit(
            segments, cache, clock, config, self._reached, lambda: turn.write(commit.accepted.base), keys.add, events, mark,
            partial(probe, disk),
        )  # fmt: skip
        self._reader = RecordReader(segments, cache)
        self._reading = Reading(index, self._reader, commit, events)
        self._hot = HotLog(index, commit, config.hot_bytes)
        timers = WheelTimers(index)
        accompaniment = self._accompaniment = Accompaniment(state)
        self._appender = Appender(commit, index, config, self._first_offset, timers.accepted)
        self.admission = WriteAdmission(commit, config, disk, events)
        writer = self._writer = StoreWriter(self._appender, self.admission, commit, config.durability)
        wheel = self._wheel = Wheel(timers, index, clock, self._reader, state, writer, accompaniment, events)
        self._transactions = OpenTransactions(index, clock, self._reader, state, writer, check_policy_of(config), accompaniment)
        turn = LeaseJournal(index, writer, events)
        ledger = self.ledger = JournaledTables(index, clock, turn, commit, self._hot, self._listeners.freed)
        compaction = self.source = Compaction(commit, index, state, ledger, self._appender)
        self._metadata = Catalogue(
            config.durability,
            index,
            writer.append_changes,
            writer.append_made,
            compaction.drop_topic,
            state.keys,
            self._appender.unapplied,
        )
        state.connect(self._reader.value)
        state_effects = StateEffects(state, self._metadata, index, ledger)
        self._effects = BatchEffects(segments, commit, index, self._appender, state_effects, wheel, self._listeners, events)
        self.recovery = LogRecovery(
            disk, segments, index, state, state_effects.replay, state_effects.load, self._appender.tag_of, events,
            files.promise,
        )  # fmt: skip
        self.promise = files.promise or Promise(0, 0, config.fresh_incarnation or incarnation_at(clock))

    def _reached(self, batch: Effects) -> None:
        self._effects.reached(batch)

    def _first_offset(self, topic: str, queue_id: int) -> int:
        return max(empty_at(self._state, topic, queue_id), self.files.segments.lost_records)

    def recover(self) -> Recovered:
        """Apply all of the log from the checkpoint on. Raises StoreError, with the files closed."""
        try:
            recovered = self.recovery.run(self.files.points.newest)
        except StoreError:
            self.close_files()
            raise
        self.ledger.replay.finish()
        return recovered

    def close_files(self) -> None:
        """Close the files of the log and of the index."""
        self.files.segments.close()
        self.index.files.segments.close()

    def load(self) -> Recovered:
        """Load the checkpoint, and prove the rest of the log without applying it. Raises StoreError, with the files closed."""
        try:
            self.recovery.load(self.files.points.newest)
            recovered = self.recovery.prove()
        except StoreError:
            self.close_files()
            raise
        self.ledger.replay.finish()
        self.load_keys(self.files.points.newest.position, self.recovery.applied)
        return recovered

    def apply(self, header: Header, data: bytes) -> None:
        """Apply the next batch of a log that was loaded."""
        self.recovery.apply(header, data)
        self.keys.read(header, data)

    def applied(self) -> Recovered:
        """Result of recovery for `store`, after all of the log is applied."""
        self.ledger.replay.finish()
        recovery = self.recovery
        recovery.finish()
        return Recovered(0, 0, 0, recovery.store_ms, 0, recovery.state_bytes, True)

    def load_keys(self, position: int, end: int) -> None:
        """Load the key index of the checkpoint at `position`, and index the log up to `end`; reports damaged parts."""
        for begin, behind in self.keys.load(position, self.files.segments, end):
            self._events.notify(
                StoreEventKind.DAMAGED, "", f"the log is damaged from {begin} to {behind}: its messages are not found by key",
                "run `headgate check` on the data directory",
            )  # fmt: skip

    def checkpointer(self, log: CheckpointedLog, points: Points) -> Checkpointer:
        """Checkpointer of `log` that continues from `points`."""
        return Checkpointer(self._disk, self._clock, self._config, log, self.index, self.keys, self.source, points)

    def reads(self, log: WrittenLog, append: Append) -> tuple[Reading, Catalogue, StoredState]:
        """Ports that read the applied part of a log, up to `log`. `append` answers changes of the state."""
        reading = Reading(self.index, self._reader, log, self._events)
        return reading, self._metadata, StoredState(self._state, append, frozenset(), self._events, self.repairs)

    def scrubber(self, durable: Callable[[], int]) -> Scrubber:
        """Scrubber of the log below the position `durable()`."""
        notified = partial(_damaged, self._events)
        made = Scrubber(self.files.segments, durable, self.promise.incarnation, self._config, notified)
        self._reader.checked.found = made.suspect
        return made

    def store(self, recovered: Recovered, checkpointer: Checkpointer, leads: bool = False) -> LogStore:
        """Begin to append behind the applied log, create the other parts and the ports, and start the store.

        `leads`: batches wait for the other replicas of a store group.
        """
        clock, config, events, commit, index = self._clock, self._config, self._events, self.commit, self.index
        segments, state, ledger, wheel, writer = self.files.segments, self._state, self.ledger, self._wheel, self._writer
        date_segments(segments, clock.wall_ms())
        commit.begin(self.promise._replace(first=segments.first, store_ms=recovered.store_ms), self.recovery.applied)
        commit.log.state_bytes = recovered.state_bytes
        if leads:
            commit.lead()
            wheel.inherit(commit.written, config.clock_skew_ms)
            wheel.mend_ms = MEND_MS
            ledger.inherited_delay_ms = config.clock_skew_ms
            commit.accepted.roll()  # an epoch begins with a file, whose base is the begin of its era
        retention = Retention(
            segments, index, commit, wheel, self._transactions, checkpointer, clock, config, self.source, events,
            lambda: 1.0 if self.files.disk.held else self.admission.free_ratio, ReadHolds(state, index),
        )  # fmt: skip
        recall = TimerRecall(index, clock, wheel, self._reader, writer, self._accompaniment)
        client_appends = ClientAppends(writer, Outbox(wheel.timers, self._accompaniment, self._transactions, clock), state)
        once = OnceAppends(client_appends.append, writer, self._appender, state, index, clock, config, events)
        once.load()
        self.scrubs = self.scrubber(lambda: commit.synced)
        parts = StoreParts(
            segments, commit, self.admission, self._appender, index, self.keys, self._reader, state, ledger, wheel, recall,
            self._accompaniment, self._transactions, checkpointer, retention, self.scrubs, LeaseCount(ledger), once,
            GroupRemoval(ledger, state, writer, clock), events, recovered, self.repairs,
        )  # fmt: skip
        return self._started(parts, client_appends)

    def _started(self, parts: StoreParts, client_appends: ClientAppends) -> LogStore:
        """Make the ports, and start the store."""
        clock, config, events, index, ledger, writer = (
            self._clock, self._config, self._events, self.index, self.ledger, self._writer,
        )  # fmt: skip
        held, metadata = StartupQueue(events, self.repairs), self._metadata
        backups = HeldBackups(
            self.files.disk, clock, parts.segments, parts.commit, parts.checkpointer, index, parts.keys, events
        )
        hidden_ms = REPAIRED_MS if self.repairs.active else UNREADABLE_MS
        source = LeaseSource(parts.reader, writer, ledger, metadata, clock, config.durability, config.broker, hidden_ms)
        positions = StoredPositions(ledger, parts.group_removal)
        key_search = KeySearch(parts.keys, self._reading, index, parts.segments, events)
        store = LogStore(
            parts,
            housekeeping := Housekeeping(parts, held, self.files.disk, clock, backups.stop, config.boot),
            StoredLog(client_appends, parts.once, self._reading, key_search, index, self._hot, self._listeners, held),
            StoredLeases(ledger, LeaseRelease(ledger, clock), index, source, held, clock, events),
            positions,
            StoredMemberPulls(ledger, positions, index, self._reading, source, held, clock, events),
            metadata,
            StoredLiteQueues(
                index, ledger, LiteQueueRemoval(ledger, self.source, writer), self._listeners, source, held, clock, events
            ),
            LeasePeek(ledger, index, clock, source, events),
            StoredState(parts.state, writer.append_changes, parts.appender.unapplied, events, self.repairs),
            backups,
        )
        housekeeping.start()
        return store


def _files(disk: Disk, config: StoreSettings, events: StoreEvents) -> StoreFiles:
    """Find the newest checkpoint, and open the files of the index and of the log."""
    held_disk = BackupDisk(disk)
    points = checkpoints.find(held_disk, events)
    index = QueueIndex(held_disk, config, points.newest.index_first, points.newest.index_end)
    _, promise, _ = promises.newest(held_disk)
    first = 0 if promise is None else promise.first
    segments = Segments(held_disk, FOLDER, first, first)
    segments.delete_left()
    return StoreFiles(held_disk, points, promise, segments, index)


def _damaged(events: StoreEvents, stretch: Stretch) -> None:
    """Report a damaged part of the log that the scrubber has found."""
    cause = f"{stretch}; who reads it is refused, and the rest is served"
    remedy = "look at the disk; `headgate repair` sets the part aside while the node is stopped"
    events.notify(StoreEventKind.DAMAGED, stretch.file, cause, remedy)
