"""Positions: the port `GroupPositions` over the lease tables. The position of a group on a queue is the floor of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.message import Placed
from domain.ports import Clock
from store.lease.ledger import LeaseLedger
from store.lease.table import LeaseTable
from store.lease.turn import JournalWriter
from store.turns import Turns

CHUNK_COST: Final = 128
DROP_COST: Final = 4
"""What it costs to look through some tables, and to remove one, in visits."""


@final
class StoredPositions:
    """`domain.store_ports.GroupPositions`."""

    def __init__(self, ledger: LeaseLedger, writer: JournalWriter, clock: Clock) -> None:
        self._ledger = ledger
        self._writer = writer
        self._clock = clock

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        """GroupPositions.offset."""
        floor = self._ledger.tables.floor((group, topic, queue_id))
        if floor < 0:
            done(Failure(ErrorCode.OFFSET_NOT_FOUND, f"group {group} has no position on {topic} queue {queue_id}"))
        else:
            done(floor)

    def commit(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """GroupPositions.commit."""
        failure = self._ledger.broken()
        if failure is not None:
            if done is not None:
                done(failure)
            return
        for topic, queue_id, offset in offsets:
            key = (group, topic, queue_id)
            table = self._ledger.tables.get(key)
            if table is None:
                table = self._ledger.tables[key] = LeaseTable(group, topic, queue_id, max(offset, 0))
            else:
                table.commit(max(offset, 0))
            self._ledger.turn.mark_changed(table)
        if done is not None:
            self._ledger.turn.when_durable([place[0] for place in offsets], done, None)

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
        """GroupPositions.drop_group. In slices, so that other groups are served meanwhile."""

        def answer(result: list[Placed] | Failure) -> None:
            done(result if isinstance(result, Failure) else None)

        def ended() -> None:
            failure = self._ledger.broken()
            if failure is not None:
                done(failure)
            else:
                self._writer.journal((), None, answer)

        Turns(self._clock).run(self._drop_slices(group), ended, lambda _: None)

    def _drop_slices(self, group: str) -> Iterator[int]:
        """Remove the tables of a group; yields the cost of each step, in visits."""
        for places in self._ledger.tables_of_group(group):
            if self._ledger.broken() is not None:
                return
            if places:
                self._writer.journal(self._ledger.drop(places), None, None)
            yield CHUNK_COST + DROP_COST * len(places)
