"""What the tables of one turn write, and who waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, Protocol

from domain.errors import Failure
from domain.message import Placed
from domain.store_ports import StateChange
from store.lease import journal
from store.lease.table import LeaseTable
from store.lease.tables import LeaseTables
from store.log.open_batch import Done
from store.queue.index import QueueIndex
from store.state.anchors import Anchors
from store.state.view import LEASE


class JournalWriter(Protocol):
    """Where it is written."""

    def journaled(self, changes: Sequence[StateChange], page: Done | None, flushed: Done | None) -> None:
        """Write changes that hold in memory; tell when the write is made, and when it is durable."""

    def wake(self) -> None:
        """See to it that the ledger's `journal` is called at the end of this turn."""


class TurnJournal:
    """Tables that have changed since the last turn ended. `anchors`: the segments that hold a table's newest whole value."""

    def __init__(self, index: QueueIndex, paper: JournalWriter) -> None:
        self._index = index
        self._paper = paper
        self.anchors: Anchors[LeaseTable] = Anchors()
        self.tables = LeaseTables(self._touch)
        self._dirty: dict[LeaseTable, None] = {}
        self._page: list[tuple[Callable[[Any], None], Any]] = []
        self._flushed: list[tuple[Callable[[Any], None], Any]] = []

    def journal(self, base: int) -> None:
        """The end of a turn: one record for all tables that have changed, and the answers that wait for it."""
        if not self._dirty and not self._page and not self._flushed:
            return
        changes: list[StateChange] = []
        for table in self._dirty:
            value, is_whole = journal.changed_value(table)
            changes.append(StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), value))
            if is_whole:
                self._anchor(table, base)
        self._dirty.clear()
        page, self._page = self._page, []
        flushed, self._flushed = self._flushed, []
        self._paper.journaled(changes, _answers(page) if page else None, _answers(flushed) if flushed else None)

    def change_of(self, table: LeaseTable) -> StateChange:
        """What has changed in `table`, to go into the log with something else; the turn's journal then leaves it out."""
        self._dirty.pop(table, None)
        value, _ = journal.changed_value(table)
        return StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), value)

    def _anchor(self, table: LeaseTable, base: int) -> None:
        """The newest value of a table is whole, and in the segment at `base`."""
        if self.tables.make_idle(table, base):
            self.anchors.forget(table)
        else:
            self.anchors.touch(table, base)

    def needed_below(self, base: int, newest: int) -> list[StateChange]:
        """What has to be written, into the segment at `newest`, before the segments before `base` may go.

        Tables that are live are marked for this turn's journal.
        """
        for table in self.anchors.below(base):
            table.whole_due = True
            self._touch(table)
        return self.tables.rewrite_idle(base, newest)

    def snapshot(self) -> Iterator[tuple[int, StateChange]]:
        """(base of the segment of the newest value, all of the table), oldest first."""
        live = (
            (base, StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), journal.whole_value(table)))
            for base, table in self.anchors.items()
        )
        yield from merge(live, self.tables.snapshot(), key=itemgetter(0))

    def when_durable(self, topic: str, done: Callable[[Any], None], result: object) -> None:
        """Tell `result` when this turn is written, at the level that `topic` promises."""
        (self._flushed if self._index.flushed(topic) else self._page).append((done, result))
        self._paper.wake()

    def _touch(self, table: LeaseTable) -> None:
        if table not in self._dirty:
            self._dirty[table] = None
            self._paper.wake()


def _answers(waiting: list[tuple[Callable[[Any], None], Any]]) -> Done:
    def answer(result: list[Placed] | Failure) -> None:
        for done, value in waiting:
            done(result if isinstance(result, Failure) else value)

    return answer
