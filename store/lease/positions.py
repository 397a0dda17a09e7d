"""Positions: the port `GroupPositions` over the lease tables. The position of a group on a queue is the floor of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain.errors import ErrorCode, Failure
from store.lease.group_removal import GroupRemoval
from store.lease.journaled_tables import JournaledTables
from store.lease.table import LeaseTable


@final
class StoredPositions:
    """`domain.store.store_ports.GroupPositions`."""

    def __init__(self, ledger: JournaledTables, removal: GroupRemoval) -> None:
        self._ledger = ledger
        self._removal = removal

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
            self._ledger.mark_changed(table)
        if done is not None:
            self._ledger.when_durable([place[0] for place in offsets], done, None)

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
