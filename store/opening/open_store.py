"""The open store: its ports, and the parts under them."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.errors import Failure
from domain.histogram import Histogram
from domain.store.backup import Backups
from domain.store.outlook import Outlook
from domain.store.store_ports import DeadLetterMoves, GroupPositions, Leases, MemberPulls, MessageLog, Metadata, State
from domain.topic.lite import LiteQueues
from domain.transaction import Timers, Transactions
from store.appends.client_appends import ClientAppends, Outbox
from store.appends.once import OnceAppends
from store.checkpoint.checkpointer import Checkpointer
from store.checkpoint.points import Points
from store.checkpoint.recovery import Recovered
from store.delay.recall import TimerRecall
from store.delay.wheel import MEND_MS
from store.deletion.read_holds import ReadHolds
from store.deletion.retention import Retention
from store.deletion.rewriting import SegmentRewriting
from store.deletion.trimming import Trimming
from store.keys.search import KeySearch
from store.lease.call import REPAIRED_MS, UNREADABLE_MS
from store.lease.lease_count import LeaseCount
from store.lease.lease_records import LeaseSource
from store.lease.leases import StoredLeases
from store.lease.lite_queues import LiteQueueRemoval, StoredLiteQueues
from store.lease.member_pulls import StoredMemberPulls
from store.lease.peek import LeasePeek
from store.lease.positions import GroupRemoval, StoredPositions
from store.log.promise import Promise
from store.log.segment_ends import date_segments
from store.opening.backup import HeldBackups
from store.opening.housekeeping import Housekeeping
from store.opening.message_log import StoredLog
from store.opening.parts import StoreParts
from store.opening.recovered_log import RecoveredLog
from store.reads.startup_queue import StartupQueue
from store.state.port import StoredState


@final
class OpenStore:
    """`domain.store.message_store.MessageStore` over one recovered log. The attributes without a comment are its ports."""

    def __init__(self, log: RecoveredLog, recovered: Recovered, promise: Promise, points: Points, leads: bool = False) -> None:
        """Begin to append behind the recovered log, with `promise`, write checkpoints behind `points`, and start.

        `leads`: batches wait for the other replicas of a store group.
        """
        clock, config, events, index, ledger = log.clock, log.config, log.events, log.index, log.ledger
        checkpointer = log.checkpointer(log.commit, points)
        _begin(log, recovered, promise, leads)
        client_appends = ClientAppends(
            log.writer, Outbox(log.wheel.timers, log.accompaniment, log.transactions, clock), log.state
        )
        once = OnceAppends(client_appends.append, log.writer, log.appender, log.state, index, clock, config, events)
        once.load()
        parts = self.parts = _parts(log, recovered, promise, checkpointer, once)
        held = StartupQueue(events, log.repairs)
        backups = HeldBackups(log.files.disk, clock, parts.segments, parts.commit, checkpointer, index, parts.keys, events)
        hidden_ms = REPAIRED_MS if log.repairs.active else UNREADABLE_MS
        source = LeaseSource(log.reader, log.writer, ledger, log.metadata, clock, config.durability, config.broker, hidden_ms)
        positions = StoredPositions(ledger, parts.group_removal)
        key_search = KeySearch(log.keys, log.reading, index, parts.segments, events)
        self._housekeeping = Housekeeping(parts, held, log.files.disk, clock, backups.stop, config.boot)
        self.log: MessageLog = StoredLog(client_appends, once, log.reading, key_search, index, log.hot, log.listeners, held)
        self.leases: Leases = StoredLeases(ledger, index, source, held, clock, events)
        self.dead_letters: DeadLetterMoves | None = None
        self.positions: GroupPositions = positions
        self.pulls: MemberPulls = StoredMemberPulls(ledger, positions, index, log.reading, source, held, clock, events)
        self.metadata: Metadata = log.metadata
        self.state: State = StoredState(log.state, log.writer.append_changes, log.appender.unapplied, events, log.repairs)
        self.transactions: Transactions = log.transactions
        self.timers: Timers = parts.recall
        self.lite_queues: LiteQueues = StoredLiteQueues(
            index, ledger, LiteQueueRemoval(ledger, log.source, log.writer), log.listeners, source, held, clock, events
        )
        self.outlook: Outlook = LeasePeek(ledger, index, clock, source, events)
        self.backups: Backups = backups
        self._housekeeping.start()

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
        return self.parts.figures()

    def unanswered_bytes(self) -> int:
        """MessageStore.unanswered_bytes."""
        return self.parts.commit.unanswered_bytes()

    def accepted_bytes(self) -> int:
        """MessageStore.accepted_bytes."""
        return self.parts.commit.accepted.taken_bytes()

    def histograms(self) -> dict[str, Histogram]:
        """MessageStore.histograms."""
        return {"append_seconds": self.parts.commit.appends, "sync_seconds": self.parts.commit.syncs.times}

    @property
    def broken(self) -> Failure | None:
        """MessageStore.broken."""
        return self.parts.commit.faults.refusal() or self.parts.commit.stalled


def _begin(log: RecoveredLog, recovered: Recovered, promise: Promise, leads: bool) -> None:
    commit, segments, skew_ms = log.commit, log.files.segments, log.config.clock_skew_ms
    date_segments(segments, commit.time.now_ms())
    commit.begin(promise._replace(first=segments.first, store_ms=recovered.store_ms), log.recovery.applied)
    commit.log.state_bytes = recovered.state_bytes
    if leads:
        commit.lead()
        log.wheel.inherit(commit.written, skew_ms)
        log.wheel.mend_ms = MEND_MS
        log.ledger.inherited_delay_ms = skew_ms
        commit.accepted.roll()  # an epoch begins with a file, whose base is the begin of its era


def _parts(
    log: RecoveredLog, recovered: Recovered, promise: Promise, checkpointer: Checkpointer, once: OnceAppends
) -> StoreParts:
    clock, config, events, index, commit = log.clock, log.config, log.events, log.index, log.commit
    rewriting = SegmentRewriting(log.wheel, log.transactions, log.source, checkpointer, commit, clock)
    trimming = Trimming(index, config, ReadHolds(log.state, index))
    retention = Retention(log.files.segments, commit, rewriting, trimming, clock, config, events, log.free_ratio)
    recall = TimerRecall(index, clock, log.wheel, log.reader, log.writer, log.accompaniment)
    return StoreParts(
        log.files.segments, commit, log.admission, log.appender, index, log.keys, log.reader, log.state, log.ledger, log.wheel,
        recall, log.accompaniment, log.transactions, checkpointer, retention,
        log.scrubber(lambda: commit.synced, promise.incarnation), LeaseCount(log.ledger), once,
        GroupRemoval(log.ledger, log.state, log.writer, clock), events, recovered, log.repairs,
    )  # fmt: skip
