"""The bundled storage engine: one log on one disk, and everything that is derived from it. `open_store` puts it together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, final

from domain.backup import Backups
from domain.errors import Failure, StoreError
from domain.histogram import Histogram
from domain.lite import LiteQueues
from domain.ports import Clock, Disk
from domain.storage_engine import StorageEngine
from domain.store_event import Report, StoreEventKind, unheard
from domain.store_ports import (
    DeadLetterMoves,
    GroupPositions,
    Leases,
    MemberPulls,
    MessageLog,
    Metadata,
    Outlook,
    State,
    StateChange,
)
from domain.transaction import Timers, Transactions
from store import checkpoint, derived
from store.append import Appender
from store.backup import HeldBackups
from store.census import Census
from store.checkpoint import Checkpointer
from store.client_appends import ClientAppends, Outbox
from store.compaction import Compaction, empty_at
from store.config import StoreConfig, check_policy_of
from store.counters import figures
from store.delay.recall import TimerRecall
from store.delay.wheel import Wheel
from store.derived import DerivedDamageError
from store.effects import BatchEffects, StateEffects
from store.events import StoreEvents
from store.full import probe
from store.held import HeldCalls
from store.held_disk import HeldDisk
from store.hot import HotLog
from store.housekeeping import Housekeeping
from store.keys.index import KeyIndex
from store.keys.search import KeySearch
from store.lease.group_removal import GroupRemoval
from store.lease.leases import StoredLeases
from store.lease.ledger import LeaseLedger
from store.lease.member_pulls import StoredMemberPulls
from store.lease.peek import LeasePeek
from store.lease.positions import StoredPositions
from store.lease.release import LeaseRelease
from store.lease.source import LeaseSource
from store.lease.turn import TurnJournal
from store.listeners import StoreListeners
from store.lite_queues import StoredLiteQueues
from store.log import promise as promises
from store.log.cache import TailCache
from store.log.commit import GroupCommit
from store.log.open_batch import Effects
from store.log.promise import Promise, PromiseMark, incarnation_at
from store.log.reader import RecordReader
from store.log.scrub import Scrubber
from store.log.segment import FOLDER, Segments
from store.log.survey import Stretch
from store.message_log import StoredLog
from store.once import OnceAppends
from store.parts import CallParts, StoreFiles, StoreParts
from store.queue.index import QueueIndex
from store.read_holds import ReadHolds
from store.reading import Reading
from store.recovery import LogRecovery, Recovered
from store.retention import Retention
from store.state.metadata import Catalogue
from store.state.port import StoredState
from store.state.view import TIMER, StateView
from store.transaction.open_transactions import OpenTransactions
from store.write_admission import WriteAdmission
from store.writer import StoreWriter


@final
class LogStore:
    """`domain.message_store.MessageStore` over one log. The attributes without a comment are its ports. See `open_store`.

    parts   what the ports stand on
    """

    def __init__(
        self,
        parts: StoreParts,
        housekeeping: Housekeeping,
        log: StoredLog,
        leases: StoredLeases,
        positions: StoredPositions,
        pulls: StoredMemberPulls,
        metadata: Catalogue,
        lite_queues: StoredLiteQueues,
        lease_peek: LeasePeek,
        state: StoredState,
        backups: HeldBackups,
    ) -> None:
        self.parts = parts
        self._housekeeping = housekeeping
        self.log: MessageLog = log
        self.leases: Leases = leases
        self.dead_letters: DeadLetterMoves | None = None
        self.positions: GroupPositions = positions
        self.pulls: MemberPulls = pulls
        self.metadata: Metadata = metadata
        self.state: State = state
        self.transactions: Transactions = parts.open_transactions
        self.timers: Timers = parts.recall
        self.lite_queues: LiteQueues = lite_queues
        self.outlook: Outlook = lease_peek
        self.backups: Backups = backups

    def drain(self, done: Callable[[], None]) -> None:
        """MessageStore.drain."""
        self._housekeeping.drain(done)

    def close(self) -> None:
        """MessageStore.close."""
        self._housekeeping.close()

    def timed(self) -> tuple[int, int]:
        """MessageStore.timed."""
        return self.parts.wheel.parked, self.parts.wheel.delivered

    def figures(self) -> dict[str, float]:
        """MessageStore.figures."""
        return figures(self.parts)

    def unanswered_bytes(self) -> int:
        """MessageStore.unanswered_bytes."""
        return self.parts.commit.waiting_bytes()

    def histograms(self) -> dict[str, Histogram]:
        """MessageStore.histograms."""
        return {"append_seconds": self.parts.commit.appends, "sync_seconds": self.parts.commit.sync_times}

    @property
    def broken(self) -> Failure | None:
        """MessageStore.broken."""
        return self.parts.commit.refusal()


def open_store(disk: Disk, clock: Clock, config: StoreConfig, report: Report = unheard) -> LogStore:
    """Open the store in `disk`'s data directory, recovering what a crash left. Raises StoreError when a person has to look.

    `report` gets what the store has to tell. It reads the log from the last checkpoint on before it returns. Reads and leases
    wait until what was found is durable. What is damaged and derived from the log is built again from the whole log.
    """
    events = StoreEvents(report)
    try:
        return _open(disk, clock, config, events)
    except DerivedDamageError as error:
        derived.set_checkpoints_aside(disk)
        cause = f"{error}; the checkpoints are set aside in {derived.ASIDE}/, and the whole log is read"
        events.tell(StoreEventKind.REBUILT, error.file, cause, "", error)
        return _open(disk, clock, config, events)


def _open(disk: Disk, clock: Clock, config: StoreConfig, events: StoreEvents) -> LogStore:
    """Make the parts. Where two of them call each other, a lambda stands for the one that is made later."""

    def reached(batch: Effects) -> None:
        effects.reached(batch)

    def first_offset(topic: str, queue_id: int) -> int:
        return max(empty_at(state, topic, queue_id), segments.lost_records)

    durability, listeners = config.durability, StoreListeners(events)
    files = _files(disk, config, events)
    disk, segments, index = files.disk, files.segments, files.index
    cache, state = TailCache(config.cache_bytes), StateView()
    mark = PromiseMark(disk, clock, lambda what, error: commit.stop(what, error))  # noqa: PLW0108
    keys = KeyIndex(disk, clock, config, lambda what, error: commit.failed(what, error))  # noqa: PLW0108
    commit = GroupCommit(
        segments, cache, clock, config, reached, lambda: turn.write(commit.base), keys.add, events, mark, partial(probe, disk)
    )
    reader = RecordReader(segments, cache)
    reading, hot = Reading(index, reader, commit, events), HotLog(index, commit, config.hot_bytes)
    appender = Appender(
        commit, index, config, first_offset,
        lambda position, due_ms: wheel.accepted(position, due_ms)  # noqa: PLW0108
    )  # fmt: skip
    admission = WriteAdmission(commit, config, disk, events)
    writer = StoreWriter(appender, admission, commit, durability)
    wheel = Wheel(index, clock, reader, state, writer, partial(StateChange, TIMER), events)
    transactions = OpenTransactions(index, clock, reader, state, writer, check_policy_of(config), wheel.change_of)
    turn = TurnJournal(index, writer, events)
    ledger = LeaseLedger(index, clock, turn, commit, hot, listeners.freed)
    compaction = Compaction(commit, index, state, ledger, appender)
    metadata = Catalogue(durability, index, writer.append_changes, writer.append_made, compaction.drop_topic, state.keys)
    state.connect(reader.value)
    state_effects = StateEffects(state, metadata, index, ledger)
    effects = BatchEffects(segments, commit, index, appender, compaction, state_effects, wheel, listeners, events)
    recovery = LogRecovery(
        disk, segments, index, state, state_effects.replay, state_effects.load, appender.tag_of, events, files.promise
    )
    recovered = _recovered(recovery, files, ledger)
    segments.date_segments(clock.wall_ms())
    _load_keys(keys, files.points.newest.position, segments, events)
    promise = files.promise or Promise(0, 0, config.fresh_incarnation or incarnation_at(clock))
    commit.begin(promise._replace(first=segments.first, store_ms=recovered.store_ms))
    commit.state_bytes = recovered.state_bytes
    checkpointer = Checkpointer(disk, clock, config, commit, index, keys, compaction, files.points)
    retention = Retention(
        segments, index, commit, wheel, transactions, checkpointer, clock, config, compaction, events,
        lambda: 1.0 if files.disk.held else admission.free_ratio, ReadHolds(state, index),
    )  # fmt: skip
    scrubber = Scrubber(
        segments, lambda: commit.synced, lambda: commit.writer.incarnation, config.scrub_days, partial(_damaged, events)
    )
    recall = TimerRecall(index, clock, wheel, reader, writer)
    client_appends = ClientAppends(writer, Outbox(wheel, transactions, clock), state)
    once = OnceAppends(client_appends.append, writer, appender, state, index, clock, config, events)
    once.load()
    removal = GroupRemoval(ledger, state, writer, clock)
    parts = StoreParts(
        segments, commit, admission, appender, index, keys, reader, state, ledger, wheel, recall, transactions, checkpointer,
        retention, scrubber, Census(ledger), once, removal, events, recovered,
    )  # fmt: skip
    calls = CallParts(HeldCalls(events), listeners, reading, hot, client_appends, writer, compaction, metadata)
    return _opened(files.disk, clock, config, parts, calls)


def _files(disk: Disk, config: StoreConfig, events: StoreEvents) -> StoreFiles:
    """Find the newest checkpoint, and open the files of the index and of the log."""
    held_disk = HeldDisk(disk)
    points = checkpoint.find(held_disk, events)
    index = QueueIndex(held_disk, config, points.newest.index_first, points.newest.index_end)
    _, promise, _ = promises.newest(held_disk)
    first = 0 if promise is None else promise.first
    segments = Segments(held_disk, FOLDER, first, first)
    segments.delete_left()
    return StoreFiles(held_disk, points, promise, segments, index)


def _opened(disk: HeldDisk, clock: Clock, config: StoreConfig, parts: StoreParts, calls: CallParts) -> LogStore:
    """Make the ports, and start the store."""
    index, ledger, held, events, writer = parts.index, parts.ledger, calls.held, parts.events, calls.writer
    backups = HeldBackups(disk, clock, parts.segments, parts.commit, parts.checkpointer, index, parts.keys, events)
    source = LeaseSource(parts.reader, parts.appender, ledger, calls.metadata, clock, config.durability)
    positions = StoredPositions(ledger, parts.group_removal)
    key_search = KeySearch(parts.keys, calls.reading, index, parts.segments, events)
    store = LogStore(
        parts,
        housekeeping := Housekeeping(parts, held, disk, clock, backups.stop),
        StoredLog(calls.client_appends, parts.once, calls.reading, key_search, index, calls.hot, calls.listeners, held),
        StoredLeases(ledger, LeaseRelease(ledger, clock), index, source, held, clock, config.broker, events),
        positions,
        StoredMemberPulls(ledger, positions, index, calls.reading, source, held, clock, events),
        calls.metadata,
        StoredLiteQueues(index, ledger, calls.compaction, calls.listeners, source, writer, held, clock, config.broker, events),
        LeasePeek(ledger, index, clock, source, events),
        StoredState(parts.state, writer.append_changes, parts.appender.unapplied, events),
        backups,
    )
    housekeeping.start()
    return store


def _recovered(recovery: LogRecovery, files: StoreFiles, ledger: LeaseLedger) -> Recovered:
    """Read the log from the checkpoint on. Raises StoreError, with the files closed."""
    try:
        recovered = recovery.run(files.points.newest)
    except StoreError:
        files.segments.close()
        files.index.close()
        raise
    ledger.replay.finish()
    return recovered


def _load_keys(keys: KeyIndex, position: int, segments: Segments, events: StoreEvents) -> None:
    """Load the key index; tell what it cannot find because the log is damaged."""
    for begin, end in keys.load(position, segments):
        events.tell(
            StoreEventKind.DAMAGED, "", f"the log is damaged from {begin} to {end}: its messages are not found by key",
            "run `headgate check` on the data directory",
        )  # fmt: skip


def _damaged(events: StoreEvents, stretch: Stretch) -> None:
    """Tell a damaged part of the log that the scrubber has found."""
    cause = f"{stretch}; who reads it is refused, and the rest is served"
    events.tell(
        StoreEventKind.DAMAGED, stretch.file, cause, "look at the disk; `headgate repair` sets it aside at the next start"
    )


LOG: Final = StorageEngine(StoreConfig, open_store)
"""The entry point `log` of the group `gateway.stores`."""
