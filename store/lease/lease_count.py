"""The number of leases, which takes a walk over all live lease tables: exact while these are few, else some seconds old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from store.lease.journaled_tables import JournaledTables

EXACT_MAX: Final = 4_096
"""Live lease tables up to which leases are counted when the figure is asked for."""
LOOK_COST: Final = 16
"""Cost of a search for live tables in a chunk of rows, in visits."""


@final
class LeaseCount:
    """Counts leases."""

    def __init__(self, ledger: JournaledTables) -> None:
        self._ledger = ledger
        self._leases = 0

    def steps(self) -> Iterator[int]:
        """Walk over all lease tables, when too many are live for `leases`; yields the cost of each step, in visits."""
        tables = self._ledger.tables
        if len(tables.live) <= EXACT_MAX:
            return
        leases = 0
        for chunk in tables.chunks():
            live = tables.live_in(chunk)
            leases += sum([len(table.leases) for table in live])
            yield LOOK_COST + 2 * len(live)
        self._leases = leases

    def leases(self) -> int:
        """Offsets between the floors and heads that are not settled: held leases and free ones."""
        return self._ledger.leased() if len(self._ledger.tables.live) <= EXACT_MAX else self._leases
