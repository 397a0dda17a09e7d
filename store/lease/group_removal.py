"""Deletion of groups: positions, leases and configuration, in slices, to the end whatever happens meanwhile.

    a note in the log  -->  the positions, some in each turn  -->  the configuration and the note, in one commit

A store that opens with a note goes on. There may be a million positions: one commit for all would hold up the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from domain.errors import Failure
from domain.message.message import Placed
from domain.ports import Clock
from domain.store.store_ports import StateChange
from store.appends.writer import StoreWriter
from store.lease.journaled_tables import JournaledTables
from store.state.view import GROUP, StateView
from store.steps import Turns

SPACE: Final = "@ungroup"
"""State space of the notes: group -> one byte."""
CHUNK_COST: Final = 128
DROP_COST: Final = 4
"""What it costs to look through some tables, and to remove one, in visits."""
SLICE_TABLES: Final = 128
"""Tables that are removed in one step."""
Done = Callable[[None | Failure], None]


@final
class GroupRemoval:
    """Deletes groups, one at a time in the order of the requests; further groups wait, in memory and as notes in the log.

    A deletion is carried out in steps that share turns of the loop (`Turns`), and goes on after a start. When the log takes no
    more changes, it stops: its callers get that failure, and a later `begin` or `check`, or the next start, goes on.

    _callers   group that is being deleted, or has still to be -> `done` of each request, called once with None when the group
               is gone durably, else with the failure; empty: nobody waits
    """

    def __init__(self, ledger: JournaledTables, state: StateView, writer: StoreWriter, clock: Clock) -> None:
        self._ledger = ledger
        self._state = state
        self._writer = writer
        self._turns = Turns(clock)
        self._callers: dict[str, list[Done]] = {}

    def start(self) -> None:
        """Go on with the deletions that an earlier store has not finished, after recovery."""
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
        """Go on with the next group, unless one is under way."""
        if self._callers and not self._turns.busy and self._writer.refusal() is None:
            group = next(iter(self._callers))
            self._turns.run(self._slices(group), lambda: self._end(group), lambda _: None)

    def stop(self) -> None:
        """Do nothing more: the store is closed, and the next one on its files goes on. `done` of what waits is not called."""
        self._turns.stop()

    def _slices(self, group: str) -> Iterator[int]:
        """Remove the tables of a group; yields the cost of each step, in visits."""
        for places in self._ledger.tables_of_group(group):
            yield CHUNK_COST
            for at in range(0, len(places), SLICE_TABLES):
                if self._ledger.broken() is not None:
                    return
                changes = self._ledger.drop_places(places[at : at + SLICE_TABLES])
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
