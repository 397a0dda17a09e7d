"""Positions of groups: the port `GroupPositions` over the lease tables, and the deletion of groups.

The position of a group on a queue is the floor of the table. The deletion runs in slices, and a restart resumes it:

    a note in the log  -->  the positions, some in each turn  -->  the configuration and the note, in one commit

A group may have a million positions: one commit for all would delay all other commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.message.message import Placed
from domain.ports import Clock
from domain.store.store_ports import StateChange
from store.appends.writer import StoreWriter
from store.lease.journaled_tables import JournaledTables
from store.lease.table import LeaseTable
from store.state.view import GROUP, StateView
from store.steps import Turns

SPACE: Final = "@ungroup"
"""State space of the notes: group -> one byte."""
CHUNK_COST: Final = 128
DROP_COST: Final = 4
"""Costs in visits: of reading one chunk of tables, and of removing one table."""
SLICE_TABLES: Final = 128
"""Tables that one step removes."""
Done = Callable[[None | Failure], None]


@final
class GroupRemoval:
    """Deletes groups one at a time, in the order of the requests; the others wait in memory and as notes in the log.

    A deletion runs in steps that share turns of the loop (`Turns`). When the log takes no more changes, the deletion stops and
    its callers get the failure; a later `begin` or `check`, or the next start, resumes it.

    _callers   group to delete -> `done` of each request, called once: with None when the deletion is durable, else with the
               failure
    """

    def __init__(self, ledger: JournaledTables, state: StateView, writer: StoreWriter, clock: Clock) -> None:
        self._ledger = ledger
        self._state = state
        self._writer = writer
        self._turns = Turns(clock)
        self._callers: dict[str, list[Done]] = {}

    def start(self) -> None:
        """Resume the unfinished deletions after recovery."""
        for key, _ in self._state.scan(SPACE, b""):
            self._callers.setdefault(key.decode(), [])
        self.check()

    def begin(self, group: str, done: Done) -> None:
        """GroupPositions.drop_group, with `done` as in `_callers`. A log that takes no changes refuses at once."""
        known = self._callers.get(group)
        if known is not None:
            known.append(done)
            self.check()
            return
        failure = self._writer.refusal()
        if failure is not None:
            done(failure)
            return
        self._callers[group] = [done]
        self._writer.append_changes([StateChange(SPACE, group.encode(), b"\x01")], None)
        self.check()

    def check(self) -> None:
        """Start or resume the deletion of the first waiting group, unless one is running."""
        if self._callers and not self._turns.busy and self._writer.refusal() is None:
            group = next(iter(self._callers))
            self._turns.run(self._slices(group), lambda: self._end(group), lambda _: None)

    def stop(self) -> None:
        """Stop: the store is closed. The next start resumes the deletions; `done` of waiting requests is not called."""
        self._turns.stop()

    def _slices(self, group: str) -> Iterator[int]:
        """Remove the tables of a group in steps; yields the cost of each one, in visits."""
        for places in self._ledger.tables_of_group(group):
            yield CHUNK_COST
            for at in range(0, len(places), SLICE_TABLES):
                if self._ledger.broken() is not None:
                    return
                changes = self._ledger.drop(places[at : at + SLICE_TABLES])
                self._writer.journal(changes, None, None)
                yield DROP_COST * len(changes)

    def _end(self, group: str) -> None:
        callers = self._callers[group]
        failure = self._writer.refusal()
        if failure is not None:
            self._callers[group] = []
            for done in callers:
                done(failure)
            return

        def answer(result: list[Placed] | Failure) -> None:
            for done in callers:
                done(result if isinstance(result, Failure) else None)

        del self._callers[group]
        name = group.encode()
        self._writer.append_changes([StateChange(GROUP, name, None), StateChange(SPACE, name, None)], answer)
        self.check()


@final
class StoredPositions:
    """`domain.store.store_ports.GroupPositions`."""

    def __init__(self, ledger: JournaledTables, removal: GroupRemoval) -> None:
        self._ledger = ledger
        self._removal = removal

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        """GroupPositions.offset."""
        floor = self._ledger.confirmed.floor((group, topic, queue_id))
        if floor < 0:
            done(Failure(ErrorCode.OFFSET_NOT_FOUND, f"group {group} has no position on {topic} queue {queue_id}"))
        else:
            done(floor)

    def commit(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """GroupPositions.commit."""
        if self._ledger.refuses(done):
            return
        for topic, queue_id, offset in offsets:
            key = (group, topic, queue_id)
            table = self._ledger.tables.get(key)
            if table is None:
                table = self._ledger.tables[key] = LeaseTable(group, topic, queue_id, max(offset, 0))
            else:
                table.commit(max(offset, 0))
            self._ledger.mark_changed(table)
        if done is not None:
            self._ledger.when_durable(group, [place[0] for place in offsets], done, None)

    def reset(self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None]) -> None:
        """GroupPositions.reset."""
        for topic, queue_id, offset in [] if self._ledger.broken() is not None else offsets:
            key = (group, topic, queue_id)
            self._ledger.pull_progress.drop(key)
            table = self._ledger.tables.get(key)
            if table is not None:
                table.reset(max(offset, 0))
        self.commit(group, offsets, done)

    def drop_group(self, group: str, done: Callable[[None | Failure], None]) -> None:
        """GroupPositions.drop_group."""
        self._removal.begin(group, done)
