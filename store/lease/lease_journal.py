"""The journal of lease tables: at the end of a turn, one record for all changed tables, and the answers that wait for it."""

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
"""What it costs to pack a table and to free its objects, and to free those of one that was removed, in visits."""


class JournalWriter(Protocol):
    """Writes the journal."""

    def journal(self, changes: Sequence[StateChange], page: Done | None, flushed: Done | None) -> None:
        """Write changes that are made in memory already. `page` is called when they are written, `flushed` when durable."""

    def schedule_journal(self) -> None:
        """Let LeaseJournal.write be called at the end of this turn."""


@final
class LeaseJournal:
    """Lease tables, and those of them that have changed in this turn.

    tables          all lease tables
    candidates      queues where a receive may find a message
    _dirty          tables that have changed since the last turn, in the order of their first change
    _changed        tables that have changed since the last `rest`
    _changed_before tables that have changed between the two calls before that
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
        """Leave `table`, which is being removed, out of the journal."""
        self._dirty.pop(table, None)

    def drop_removed(self) -> None:
        """Leave the tables that have been removed with their topic out of the journal."""
        self._dirty = {table: None for table in self._dirty if not self.tables.is_removed(table)}

    def pending_change(self, table: LeaseTable) -> StateChange:
        """The change of `table`, for the caller to append with another message; the journal of the turn leaves it out."""
        self._dirty.pop(table, None)
        value, _ = journal.changed_value(table)
        return StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), value)

    def anchor(self, table: LeaseTable, base: int) -> None:
        """Note that the segment at `base` holds the newest whole value of `table`; packs the table when it is idle."""
        if not self.tables.make_idle(table, base, False):
            table.anchor = base

    def packed(self, table: LeaseTable) -> bool:
        """Pack `table` if it is idle. False when it has to stay live."""
        return table.anchor >= 0 and self.tables.make_idle(table, table.anchor, True)

    @property
    def restless(self) -> int:
        """Tables that have changed since the last `rest`."""
        return len(self._changed)

    def rest(self) -> Iterator[int]:
        """Pack the idle tables that have not changed since the call before; yields the cost of each step, in visits."""
        quiet, self._changed_before, self._changed = self._changed_before, self._changed, {}
        while quiet:
            # Taken out one by one: what is packed is freed in the same step, not all of it behind the last one.
            table, _ = quiet.popitem()
            if table.dropped:
                yield FREE_COST
            elif table in self._changed_before or table in self._changed or table in self._dirty:
                yield 1
            else:
                yield PACK_COST if self.packed(table) else 1

    def renew(self, tables: Sequence[LeaseTable], base: int) -> None:
        """Journal the whole value of those `tables` whose newest one is before position `base`, at the next `write`."""
        for table in tables:
            if not table.dropped and 0 <= table.anchor < base:
                table.whole_due = True
                self.mark_changed(table)

    def snapshot(self, tables: Sequence[LeaseTable]) -> list[tuple[int, StateChange]]:
        """(base of the segment of the newest whole value, whole value) of those live `tables` that have one in the log."""
        found: list[tuple[int, StateChange]] = []
        for table in tables:
            if table.anchor >= 0:
                key = journal.key(table.group, table.topic, table.queue_id)
                found.append((table.anchor, StateChange(LEASE, key, journal.whole_value(table))))
        return found

    def when_written(self, done: Callable[[Any], None], result: object) -> None:
        """Call `done(result)` when the journal of this turn is written. The caller has marked a table as changed before."""
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
        if self.candidates.places:  # most nodes have none, and each acknowledgement would ask
            self.candidates.changed(table)
        if table not in self._dirty:
            self._dirty[table] = None
            self._writer.schedule_journal()

    def _answers(self, waiting: list[tuple[Callable[[Any], None], Any]]) -> Done:
        """One callback for all (callback, result) of `waiting`; a failure replaces the results."""

        def answer(result: list[Placed] | Failure) -> None:
            for done, value in waiting:
                try:
                    done(result if isinstance(result, Failure) else value)
                except Exception as error:
                    self._events.fault("the answer to a lease call", error)

        return answer
