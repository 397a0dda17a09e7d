"""The lease ledger: the lease tables of all groups, journaled once a turn, expired by one timer.

One record at the end of a turn holds all tables changed in it; answers wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, final

from domain.errors import Failure
from domain.message.message import Placed
from domain.ports import Clock
from domain.store.store_ports import StateChange
from store.appends.writer import StoreWriter
from store.disk_full.faults import WriteFaults
from store.events import StoreEvents
from store.lease import journal
from store.lease.attempts import Attempts
from store.lease.candidates import AllCandidates
from store.lease.confirmed_floors import ConfirmedFloors
from store.lease.expiry import Expiry
from store.lease.pull_progress import PullProgressTable
from store.lease.replay import LeaseReplay
from store.lease.table import LeaseTable
from store.lease.tables import LeaseTables
from store.log.open_batch import Done
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.reads.hot import HotLog
from store.state.view import LEASE

PACK_COST: Final = 16
FREE_COST: Final = 8
"""Costs in visits: of packing a table and freeing its objects, and of freeing a removed one."""


@final
class JournaledTables:
    """The lease tables by (group, topic, queue id), with their journal, expiry and candidates.

    confirmed       positions for readers
    attempts        queues of attempts in unordered groups
    inherited_delay_ms   ms that `recovered` adds to the end of each lease: another node's clock has timed them
    freed           to call with (group, topic) when messages can be leased again
    _round_robin    (group, topic) -> number of lease calls for any queue so far
    _dirty          tables changed in this turn, in the order of their first change
    _changed        tables changed since the last `rest`
    _changed_before tables changed between the last two calls of `rest`
    _when_written   (callback, result) to call when the journal of this turn is written
    _when_synced    (callback, result) to call when it is durable
    _awaited        (group, topic) of tables for which somebody waits -> True: until they are durable, False: written
    """

    def __init__(
        self, index: QueueIndex, clock: Clock, writer: StoreWriter, faults: WriteFaults, hot: HotLog, events: StoreEvents,
        freed: Callable[[str, str], None],
    ) -> None:  # fmt: skip
        self._index = index
        self._writer = writer
        self._faults = faults
        self._hot = hot
        self._events = events
        self.freed = freed
        self.inherited_delay_ms = 0
        self.tables = LeaseTables(self.mark_changed)
        self.confirmed = ConfirmedFloors(self.tables, writer)
        self.candidates = AllCandidates()
        self.attempts = Attempts()
        self.pull_progress = PullProgressTable()
        self._round_robin: dict[tuple[str, str], int] = {}
        self.replay = LeaseReplay(self.tables, self.omit, self.anchor)
        self._expiry = Expiry(clock, self.tables.schedule, freed, self.candidates.changed)
        self._dirty: dict[LeaseTable, None] = {}
        self._changed: dict[LeaseTable, None] = {}
        self._changed_before: dict[LeaseTable, None] = {}
        self._when_written: list[tuple[Callable[[Any], None], Any]] = []
        self._when_synced: list[tuple[Callable[[Any], None], Any]] = []
        self._awaited: dict[tuple[str, str], bool] = {}

    def broken(self) -> Failure | None:
        """Failure because of which the store takes no more writes; None while it takes them."""
        return self._faults.refusal()

    def refuses(self, done: Callable[[Failure], None] | None) -> bool:
        """True when the store takes no more writes: `done` got the failure."""
        failure = self._faults.refusal()
        if failure is not None and done is not None:
            done(failure)
        return failure is not None

    def table(self, group: str, queue: Queue, from_first: bool) -> LeaseTable:
        """Table of a group on a queue, created if missing, and cut to the offsets of the queue."""
        key = (group, queue.name, queue.id)
        table = self.tables.get(key)
        self._index.refresh(queue)
        if table is None:
            removing = self.tables.is_removing(queue.name)
            progress = None if removing else self.pull_progress.get(key)
            start = self._hot.start_of(queue, from_first) if progress is None else progress.start
            table = self.tables[key] = LeaseTable(*key, start)
            self.mark_changed(table)
        if table.floor < queue.first:
            table.commit(queue.first)
            self.mark_changed(table)
        elif table.head > queue.next:
            table.commit(min(table.floor, queue.next))
            table.head = min(table.head, queue.next)
            self.mark_changed(table)
        return table

    def next_round(self, group: str, topic: str) -> int:
        """Number of earlier lease calls of `group` for any queue of `topic`; it selects the first queue of the call."""
        count = self._round_robin.get((group, topic), 0)
        self._round_robin[group, topic] = count + 1
        return count

    def share(self, table: LeaseTable, queue: Queue, now: int) -> None:
        """Share the queue with receivers: the messages that a member has pulled and not reported become its leases."""
        table.shared = True
        progress = self.pull_progress.drop((table.group, table.topic, table.queue_id))
        if progress is not None:
            progress.become_leases(table, queue.visible, now)
            self.changed(table)

    def changed(self, table: LeaseTable) -> None:
        """Journal the changed `table` at the end of this turn, and schedule the expiry of its leases."""
        self.mark_changed(table)
        self._expiry.schedule(table)

    def drop_topic(self, topic: str) -> list[StateChange]:
        """Remove all tables of a topic and of its lite queues; returns the changes for the log, at most two.

        A few hundred tables are forgotten at once, the others by `forget_removed`.
        """
        changes = [StateChange(LEASE, prefix, None) for prefix in self.tables.take(topic)]
        if changes:
            self._dirty = {table: None for table in self._dirty if not self.tables.is_removed(table)}
            next(self.forget_removed(), 0)
            next(self.forget_removed(), 0)
        return changes

    def forget_removed(self) -> Iterator[int]:
        """Forget the tables of deleted topics in steps; yields the cost of each one, in visits."""
        return self.tables.forget(self._forget)

    def _forget(self, key: bytes, table: LeaseTable | None) -> None:
        group, topic, queue_id = journal.parse_key(key)
        if self._round_robin:
            self._round_robin.pop((group, topic), None)
        self.candidates.drop(group, topic)
        if len(self.pull_progress):
            self.pull_progress.drop((group, topic, queue_id))
        if table is not None:
            self.omit(table)

    def tables_of_group(self, group: str) -> Iterator[list[tuple[str, str, int]]]:
        """Places of the tables of a group, one list per step of a walk over all tables."""
        middle = f"\x00{group}\x00".encode()
        for chunk in self.tables.chunks():
            yield [journal.parse_key(key) for key in chunk.keys if middle in key]

    def drop(self, keys: Sequence[tuple[str, str, int]]) -> list[StateChange]:
        """Remove the tables at `keys` that exist; returns the changes for the log."""
        changes: list[StateChange] = []
        for key in keys:
            if key not in self.tables:
                continue
            table = self.tables.pop(key)
            self.pull_progress.drop(key)
            self._round_robin.pop((key[0], key[1]), None)
            self.candidates.drop(key[0], key[1])
            if table is not None:
                self.omit(table)
            changes.append(StateChange(LEASE, journal.key(*key), None))
        return changes

    def apply(self, change: StateChange, base: int) -> None:
        """Apply a change that recovery has read from the log or a snapshot, in the segment at `base`."""
        if change.value is None:
            self.replay.remove(change.key)
        else:
            self.replay.put(change.key, change.value, base)

    def recovered(self) -> None:
        """Rebuild the heaps and start the timer, after recovery has applied all changes."""
        for table in self.tables.live.values():
            table.journaled = table.floor
            if self.packed(table):
                continue
            if self.inherited_delay_ms:
                for lease in table.leases.values():
                    lease.end_ms += self.inherited_delay_ms
            journal.recovered(table)
            self.attempts.load(table)
            self._expiry.schedule(table)

    def stop(self) -> None:
        """Stop the timer: the store is closed."""
        self._expiry.stop()

    @property
    def expired(self) -> int:
        """Leases that have ended without being settled, since the start."""
        return self._expiry.expired

    def leased(self) -> int:
        """Number of unsettled offsets between the floors and heads: held leases and free ones."""
        return sum(len(table.leases) for table in self.tables.live.values())

    # Journal

    def write(self, base: int) -> None:
        """Write the changed tables of this turn as one record, into the segment at `base`."""
        if not self._dirty and not self._when_written and not self._when_synced:
            return
        changes: list[StateChange] = []
        moved: list[LeaseTable] = []
        for table in self._dirty:
            value, is_whole = journal.changed_value(table)
            changes.append(StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), value))
            if table.floor != table.journaled:
                moved.append(table)
            if is_whole:
                self.anchor(table, base)
        self._changed.update(self._dirty)
        self._dirty.clear()
        page, self._when_written = self._when_written, []
        flushed, self._when_synced = self._when_synced, []
        awaited, self._awaited = self._awaited, {}
        self._writer.journal(changes, self._answers(page) if page else None, self._answers(flushed) if flushed else None)
        for table in moved:
            self.confirmed.journaled(table, self._writer.newest(), awaited.get((table.group, table.topic)))

    def omit(self, table: LeaseTable) -> None:
        """Omit `table`, which is being removed, from the journal of this turn."""
        self._dirty.pop(table, None)

    def pending_change(self, table: LeaseTable) -> StateChange:
        """Change of `table`, for the caller to append with a message before `appended`; the journal of the turn omits it."""
        self._dirty.pop(table, None)
        value, _ = journal.changed_value(table)
        return StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), value)

    def appended(self, table: LeaseTable) -> None:
        """The newest append has the floor of `table`, which readers get once that append is written: nobody waits for it."""
        self.confirmed.journaled(table, self._writer.newest(), False)

    def anchor(self, table: LeaseTable, base: int) -> None:
        """Record that the segment at `base` holds the newest whole value of `table`; packs an idle table."""
        if not self.tables.make_idle(table, base, False):
            table.anchor = base

    def packed(self, table: LeaseTable) -> bool:
        """Pack `table` if it is idle; False when it has to stay live."""
        return table.anchor >= 0 and self.tables.make_idle(table, table.anchor, True)

    @property
    def restless(self) -> int:
        """Number of tables changed since the last `rest`."""
        return len(self._changed)

    def rest(self) -> Iterator[int]:
        """Pack the idle tables unchanged since the previous call, in steps; yields the cost of each step, in visits."""
        quiet, self._changed_before, self._changed = self._changed_before, self._changed, {}
        while quiet:
            # Popped one by one: each step frees the objects of its table, not the last step those of all.
            table, _ = quiet.popitem()
            if table.dropped:
                yield FREE_COST
            elif table in self._changed_before or table in self._changed or table in self._dirty:
                yield 1
            else:
                yield PACK_COST if self.packed(table) else 1

    def renew(self, tables: Sequence[LeaseTable], base: int) -> None:
        """Journal, at the next `write`, those `tables` whose newest whole value is before position `base`."""
        for table in tables:
            if not table.dropped and 0 <= table.anchor < base:
                table.whole_due = True
                self.mark_changed(table)

    def snapshot(self, tables: Sequence[LeaseTable]) -> list[tuple[int, StateChange]]:
        """(base of the segment of the newest whole value, whole value) of each of the live `tables` with one in the log."""
        found: list[tuple[int, StateChange]] = []
        for table in tables:
            if table.anchor >= 0:
                key = journal.key(table.group, table.topic, table.queue_id)
                found.append((table.anchor, StateChange(LEASE, key, journal.whole_value(table))))
        return found

    def when_written(self, done: Callable[[Any], None], result: object) -> None:
        """Call `done(result)` when the journal of this turn is written. The caller has marked a table as changed."""
        self._when_written.append((done, result))

    def when_durable(self, group: str, topics: Iterable[str], done: Callable[[Any], None], result: object) -> None:
        """Call `done(result)` when the journal of this turn has reached the strictest durability level among `topics`, on
        which tables of `group` have changed."""
        flushed = False
        for topic in topics:
            level = self._awaited[group, topic] = self._index.flushed(topic)
            flushed = flushed or level
        (self._when_synced if flushed else self._when_written).append((done, result))
        self._writer.schedule_journal()

    def mark_changed(self, table: LeaseTable) -> None:
        """Journal `table` at the end of this turn."""
        if self.tables.removals and self.tables.is_removed(table):
            return
        if self.candidates.places:  # most nodes have none: saves a call per acknowledgement
            self.candidates.changed(table)
        if table not in self._dirty:
            self._dirty[table] = None
            self._writer.schedule_journal()

    def _answers(self, waiting: list[tuple[Callable[[Any], None], Any]]) -> Done:
        """One callback for all (callback, result) pairs of `waiting`; a failure replaces the results."""

        def answer(result: list[Placed] | Failure) -> None:
            for done, value in waiting:
                try:
                    done(result if isinstance(result, Failure) else value)
                except Exception as error:
                    self._events.fault("the answer to a lease call", error)

        return answer
