"""Releases of leases before their end, without settling them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain.message.receipt import Receipt
from domain.ports import Clock
from store.lease.journaled_tables import JournaledTables
from store.lease.table import LeaseTable


@final
class LeaseRelease:
    """Releases fleeting leases of the previous process, and leases whose messages were never delivered.

    Construct it after recovery, when all fleeting leases of the tables are of the previous process.
    """

    __slots__ = ("_clock", "_ledger", "_previous")

    def __init__(self, ledger: JournaledTables, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._previous: list[tuple[LeaseTable, int, int]] = []
        for table in ledger.tables.live.values():
            self._previous += [(table, at, lease.pop_ms) for at, lease in table.leases.items() if lease.fleeting]

    def lapse(self) -> None:
        """Leases.lapse. Journals nothing: after a crash the next start finds the same leases and releases them again."""
        previous, self._previous = self._previous, []
        now = self._clock.wall_ms()
        places: dict[tuple[str, str], None] = {}
        for table, offset, pop_ms in previous:
            if not table.dropped and table.release(offset, pop_ms, now) is not None:
                places[table.group, table.topic] = None
                self._ledger.turn.candidates.changed(table)
        for group, topic in places:
            self._ledger.freed(group, topic)

    def withdraw(self, group: str, topic: str, receipts: Sequence[Receipt], wake: bool) -> None:
        """Leases.withdraw. No caller waits for the journal: if it is lost, the leases end at their `end_ms`."""
        if self._ledger.broken() is not None:
            return
        now = self._clock.wall_ms()
        for receipt in receipts:
            table = self._ledger.tables.get((group, topic, receipt.queue_id))
            lease = None if table is None else table.release(receipt.queue_offset, receipt.pop_ms, now)
            if table is not None and lease is not None:
                lease.attempts -= 1
                self._ledger.changed(table)
        if wake:
            self._ledger.freed(group, topic)
