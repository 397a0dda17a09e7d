"""The journal of lease tables: one record for all changed tables at the end of a turn; answers wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, final

from domain.errors import Failure
from domain.message.message import Placed
from domain.store.store_ports import StateChange
from store.events import StoreEvents
from store.lease import journal
from store.lease.candidates import AllCandidates
from store.lease.table import LeaseTable
from store.lease.tables import LeaseTables
from store.log.open_batch import Done
from store.queue.index import QueueIndex
from store.state.view import LEASE

PACK_COST: Final = 16
FREE_COST: Final = 8
"""Costs in visits: of packing a table and freeing its objects, and of freeing a removed one."""


class JournalWriter(Protocol):
    """Appends the journal to the log."""

    def journal(self, changes: Sequence[StateChange], page: Done | None, flushed: Done | None) -> None:
        """Write changes already made in memory. `page` is called when they are written, `flushed` when they are durable."""

    def schedule_journal(self) -> None:
        """Request a call of LeaseJournal.write at the end of this turn."""


@final
class LeaseJournal:
    """All lease tables, and the changes of this turn.

    _dirty          tables changed in this turn, in the order of their first change
    _changed        tables changed since the last `rest`
    _changed_before tables changed between the last two calls of `rest`
    _when_written   (callback, result) to call when the journal of this turn is written
    _when_synced    (callback, result) to call when it is durable
    """

    def __init__(self, index: QueueIndex, writer: JournalWriter, events: StoreEvents) -> None:
        self._index = index
        self._events = events
        self._writer = writer
        self.tables = LeaseTables(self.mark_changed)
        self.candidates = AllCandidates()
        self._dirty: dict[LeaseTable, None] = {}
        self._changed: dict[LeaseTable, None] = {}
        self._changed_before: dict[LeaseTable, None] = {}
        self._when_written: list[tuple[Callable[[Any], None], Any]] = []
        self._when_synced: list[tuple[Callable[[Any], None], Any]] = []

    def write(self, base: int) -> None:
        """Write the changed tables of this turn as one record, into the segment at `base`."""
        if not self._dirty and not self._when_written and not self._when_synced:
            return
        changes: list[StateChange] = []
        for table in self._dirty:
            value, is_whole = journal.changed_value(table)
            changes.append(StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), value))
            if is_whole:
                self.anchor(table, base)
        self._changed.update(self._dirty)
        self._dirty.clear()
        page, self._when_written = self._when_written, []
        flushed, self._when_synced = self._when_synced, []
        self._writer.journal(changes, self._answers(page) if page else None, self._answers(flushed) if flushed else None)

    def drop(self, table: LeaseTable) -> None:
        """Omit `table`, which is being removed, from the journal of this turn."""
        self._dirty.pop(table, None)

    def drop_removed(self) -> None:
        """Omit the tables removed with their topic from the journal of this turn."""
        self._dirty = {table: None for table in self._dirty if not self.tables.is_removed(table)}

    def pending_change(self, table: LeaseTable) -> StateChange:
        """Change of `table`, for the caller to append with a message; the journal of the turn omits it."""
        self._dirty.pop(table, None)
        value, _ = journal.changed_value(table)
        return StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), value)

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

    def when_durable(self, topics: Iterable[str], done: Callable[[Any], None], result: object) -> None:
        """Call `done(result)` when the journal of this turn has reached the strictest durability level among `topics`."""
        flushed = False
        for topic in topics:
            flushed = flushed or self._index.flushed(topic)
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
