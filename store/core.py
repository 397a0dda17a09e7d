"""The parts of the store and what they ask of each other. One object knows them all, so that no two of them know each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, final

from domain import address, lite
from domain.address import HALF_TOPIC
from domain.errors import ErrorCode, Failure
from domain.message import Message
from domain.ports import Clock, Disk, Timer
from domain.store_ports import StateChange, StoreListener
from domain.topic import Durability, Topic
from store import checkpoint
from store.append import Appender
from store.checkpoint import Checkpointer
from store.compaction import Compaction, empty_at
from store.config import StoreConfig, check_policy_of
from store.delay import parking
from store.delay.recall import TimerRecall
from store.delay.wheel import Wheel
from store.held import HeldCalls
from store.keys.index import KeyIndex
from store.keys.search import KeySearch
from store.lease.ledger import LeaseLedger
from store.lease.member_pulls import StoredMemberPulls
from store.lease.peek import LeasePeek
from store.lease.release import LeaseRelease
from store.lease.retry import retry_copy
from store.lease.table import LeaseTable
from store.lite_queues import StoredLiteQueues
from store.log.cache import TailCache
from store.log.commit import GroupCommit
from store.log.open_batch import Done, Effects
from store.log.reader import RecordReader
from store.log.segment import FOLDER, Segments
from store.queue.block import ROWS_MAX
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import ROW_BYTES, Row
from store.reading import Reading
from store.recovery import ABORT, LogRecovery
from store.retention import Retention
from store.state.metadata import Catalogue
from store.state.view import DROPPED, GROUP, HALF, LEASE, TIMER, TOPIC, StateView
from store.transaction.open_transactions import OpenTransactions
from store.turns import Turns

_TAIL_BYTES: Final = ROWS_MAX * ROW_BYTES
_SECOND_NS: Final = 1_000_000_000


@final
class Core:
    """The opened store. Its methods are what the ledger, the wheel, retention and checkpoints need of their host."""

    def __init__(self, disk: Disk, clock: Clock, config: StoreConfig) -> None:
        self._disk = disk
        self.clock = clock
        self.config = config
        self.listeners: list[StoreListener] = []
        self.flushed_default = config.durability is Durability.FLUSHED
        self._full: Failure | None = None
        self.free = 1.0
        self._spills = Turns(clock)
        self._draining: Failure | None = None
        self._closed = False
        self.held = HeldCalls()
        self._timer: Timer | None = None
        point = checkpoint.newest(disk)
        self.segments = Segments(disk, FOLDER)
        self.cache = TailCache(config.cache_bytes)
        self.keys = KeyIndex(disk, clock, config, lambda what, error: self.commit.stop(what, error))  # noqa: PLW0108
        self.commit = GroupCommit(self.segments, self.cache, clock, config, self._reached, self._before_write, self.keys.add)
        self.index = QueueIndex(disk, config, point.index_end)
        self.reader = RecordReader(self.segments, self.cache)
        self.reading = Reading(self.index, self.reader)
        self.key_search = KeySearch(self.keys, self.reading, self.index, self.segments, self.commit)
        self.state = StateView()
        self.wheel = Wheel(self.index, clock, self, partial(StateChange, TIMER))
        self.appender = Appender(self.commit, self.index, config, partial(empty_at, self.state), self.wheel.accepted)
        self.timer_recall = TimerRecall(self.index, clock, self.wheel, self)
        self.open_transactions = OpenTransactions(self.index, clock, self, check_policy_of(config))
        self.ledger = LeaseLedger(self.index, clock, self, config.broker)
        self.member_pulls = StoredMemberPulls(self.ledger, self.index, self.reading, clock, self, self.held)
        self.compaction = Compaction(self.commit, self.index, self.state, self.ledger, self.appender)
        self.lite_queues = StoredLiteQueues(self.index, self.ledger, self.compaction, clock, self, config.broker)
        self.metadata = Catalogue(config.durability, self.append_changes, self.compaction.drop_topic)
        self.state.connect(self.append_changes, self.segments.read)
        recovery = LogRecovery(disk, self.segments, self.index, self.state, self._recovered, self.appender.tag_of)
        self.recovered = recovery.run(point)
        self.lease_peek = LeasePeek(self.ledger, self.index, clock, self)
        self.lease_release = LeaseRelease(self.ledger, clock, self.freed)
        self.segments.date_segments(clock.wall_ms())
        self.keys.load(point.position, self.segments)
        self.commit.begin(point.position)
        self.commit.store_ms = self.recovered.store_ms
        self.checkpointer = Checkpointer(disk, clock, config, self.commit, self.index, self.keys, self, point)
        self.retention = Retention(
            self.segments, self.index, self.commit, self.wheel, self.open_transactions, self.checkpointer, clock, config,
            self.compaction,
        )  # fmt: skip
        self._start()

    def _start(self) -> None:
        for base, queue in self.index.newest(self.segments):
            self.compaction.queues.touch(queue, base)
        self._disk.replace(ABORT, b"running\n")
        self.ledger.recovered()
        self.wheel.start()
        self.open_transactions.start()
        if self.commit.synced < self.commit.written:
            self.commit.when_synced(self._release)
        else:
            self._release()
        self._tick()

    def append_changes(self, changes: Sequence[StateChange], done: Done | None) -> None:
        """Append state changes by themselves, at the store's default level."""
        failure = self.refusal()
        if failure is None:
            self.appender.add((), changes, done, self.flushed_default)
        elif done is not None:
            done(failure)

    def refusal(self) -> Failure | None:
        """Why nothing can be taken now: STORE_UNAVAILABLE, DRAINING, OVERLOADED; None when it can."""
        commit = self.commit
        if commit.broken is not None:
            return commit.broken
        if self._draining is not None:
            return self._draining
        if commit.waiting_bytes() > self.config.pending_bytes_max:
            return Failure(ErrorCode.OVERLOADED, f"{commit.waiting_bytes()} bytes wait to be written")
        return self._full

    def _look_at_space(self) -> None:
        free = self.free = self._disk.free_ratio()
        self._full = None
        if free < self.config.free_ratio_min:
            text = f"only {free:.1%} of the volume is free, {self.config.free_ratio_min:.0%} are needed to take messages"
            self._full = Failure(ErrorCode.STORE_UNAVAILABLE, text)

    # Levels reached

    def _reached(self, effects: Effects) -> None:
        arrivals = effects.arrivals
        segment = self.segments.at(effects.position)
        base = self.segments.active.base if segment is None else segment.base
        for queue, records in arrivals.items():
            queue.visible += len(records)
            self.compaction.queues.touch(queue, base)
            if queue.tail is not None and len(queue.tail) >= _TAIL_BYTES:
                self._guarded(partial(self.index.write_out, queue))
        for pending in effects.pending:
            if pending.changes:
                self._applied(pending.changes, base)
                self.appender.applied(pending)
        for queue, records in arrivals.items():
            if parking.is_parking_topic(queue.entry.name):
                self.wheel.arrived(queue, records)
        for pending in effects.pending:
            done, pending.done = pending.done, None
            if done is not None:
                done(pending.placed)
        for queue, records in arrivals.items():
            if not parking.is_parking_topic(queue.entry.name) and queue.entry.name != HALF_TOPIC:
                if queue.lite:
                    self.lite_queues.arrived(queue)
                    continue
                for listener in self.listeners:
                    listener.arrived(queue.entry.name, queue.id, records)

    def _applied(self, changes: Sequence[StateChange], base: int) -> None:
        for item in changes:
            if item.space != LEASE:
                self._apply(item, base)

    def _apply(self, item: StateChange, base: int) -> None:
        self.state.apply(item, base)
        if item.space == TOPIC:
            topic = self.metadata.apply(item)
            self.index.configure(item.key.decode(), topic)
        elif item.space == GROUP:
            self.metadata.apply(item)

    def _recovered(self, item: StateChange, base: int) -> None:
        """A state change that opening has found."""
        if item.space == LEASE:
            self.ledger.apply(item, base)
            return
        self._apply(item, base)
        if item.space == DROPPED and item.value is not None:
            topic = item.key.decode()
            self.index.drop_topic(topic, int(item.value.split(b" ")[0]))
            self.index.configure(topic, self.metadata.topic(topic))

    def _before_write(self) -> None:
        self.ledger.journal(self.commit.base)

    # What the parts ask for

    def records(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of rows. Raises StoreError, OSError."""
        return self.reader.fetch(rows)

    def journaled(self, changes: Sequence[StateChange], page: Done | None, flushed: Done | None) -> None:
        """Write changes that hold in memory; tell when the write is made, and when it is durable."""
        if changes:
            self.appender.journal(changes)
        if page is not None:
            self.appender.add((), (), page, False)
        if flushed is not None:
            self.appender.add((), (), flushed, True)

    def schedule_journal(self) -> None:
        """See to it that this turn ends with a write."""
        self.commit.wake()

    def broken(self) -> Failure | None:
        """Why nothing can be written any more."""
        return self.commit.broken

    def start_of(self, queue: Queue, from_first: bool) -> int:
        """Where a group without a position begins: the first message, or the last where not all is hot."""
        return queue.first if from_first or queue.first == queue.visible or self.is_hot(queue) else queue.visible - 1

    def is_hot(self, queue: Queue) -> bool:
        """True when nothing of the queue is gone and its first message is in the newest `hot_bytes` of the log."""
        rows = self.index.rows(queue, queue.first, 1) if queue.first == 0 or queue.lite else []
        return bool(rows) and self.commit.written - rows[0][0] <= self.config.hot_bytes

    def freed(self, group: str, topic: str) -> None:
        """Messages of `topic` can be leased again by `group`."""
        if topic.startswith(lite.PREFIX):
            self.lite_queues.freed(group, topic)
            return
        for listener in self.listeners:
            listener.freed(group, topic)

    def move_to_retry_topic(self, table: LeaseTable, offset: int, record: bytes, retry_topic: str = "") -> None:
        """Copy a message to the retry topic of its leases ("") or the one named, and settle it in the same commit."""
        name = retry_topic or table.topic
        if not name.startswith(address.RETRY_PREFIX):
            name = address.pop_retry_topic(table.group, table.topic)
        origin = self.metadata.topic(table.topic)
        if self.metadata.topic(name) is None:
            durability = self.config.durability if origin is None else origin.durability
            created_ms = self.clock.wall_ms()
            topic = Topic(name, 1, 1, durability=durability, created_ms=created_ms)
            self.metadata.put_topic(topic, lambda _: None)
        lease = table.leases[offset]
        copy = retry_copy(record, name, table.topic, lease.attempts, lease.first_ms)
        table.skip(offset)
        self.appender.add((copy,), (self.ledger.pending_change(table),), None, False)

    def timer_state(self, key: bytes) -> bytes | None:
        """A value of the timers' state space."""
        return self.state.get(TIMER, key)

    def timer_states(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Values of the timers' state space by prefix of their keys."""
        return self.state.scan(TIMER, prefix)

    def halves(self) -> Iterator[tuple[bytes, bytes]]:
        """The state space of open transactions, in key order."""
        return self.state.scan(HALF, b"")

    def half_queue(self) -> Queue:
        """The queue of half messages, made when there is none."""
        return self.appender.queue(HALF_TOPIC, 0)

    def put(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Append messages and changes in one commit, without asking whether the store may."""
        self.appender.add(messages, changes, done, not messages and self.flushed_default)

    def deliver(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Append messages that are due, with the progress that they make, in one commit."""
        failure = self.refusal()
        if failure is None:
            self.appender.add(messages, changes, done, False)
        else:
            done(failure)

    def has_topic(self, name: str) -> bool:
        """True when the topic exists."""
        entry = self.index.topics.get(name)
        return entry is not None and (entry.topic is not None or bool(entry.queues))

    def snapshot(self) -> Iterator[tuple[int, StateChange, bool]]:
        """(base of the segment of the newest record, change, its value is a row) of every live key."""
        yield from self.state.snapshot()
        for base, change in self.ledger.snapshot():
            yield base, change, False

    # Running

    def _guarded(self, step: Callable[[], None]) -> None:
        if self.commit.broken is None:
            try:
                step()
            except OSError as error:
                self.commit.stop("a write of the index", error)

    def _release(self) -> None:
        self.held.release()

    def _tick(self) -> None:
        if self._closed:
            return
        if self.held.holding and self.commit.broken is not None:
            self._release()
        self._look_at_space()
        if not self._spills.busy and self.commit.broken is None:
            self._spills.run(self.index.spill(), lambda: None, partial(self.commit.stop, "a write of the index"))
        self.checkpointer.check()
        self.retention.check()
        self.keys.drop_before(self.segments.first)
        self._timer = self.clock.call_at(self.clock.monotonic_ns() + _SECOND_NS, self._tick)

    def drain(self, done: Callable[[], None]) -> None:
        """Take nothing new, make durable what is there, write a checkpoint; then `done`, and `close` may follow."""
        self._draining = Failure(ErrorCode.DRAINING, "the store is being closed")
        if self.commit.broken is not None:
            done()
            return

        def checkpointed() -> None:
            self._disk.remove(ABORT)
            done()

        self.checkpointer.begin(False, checkpointed)

    def close(self) -> None:
        """Let go of the files. Without `drain` before, the next start reads what is not yet in a checkpoint."""
        if self._closed:
            return
        self._closed = True
        self._draining = Failure(ErrorCode.DRAINING, "the store is closed")
        if self._timer is not None:
            self._timer.cancel()
        self._spills.stop()
        self.retention.stop()
        self.ledger.stop()
        self.wheel.stop()
        self.open_transactions.stop()
        self.commit.close()
        self.index.close()
        self.keys.close()
