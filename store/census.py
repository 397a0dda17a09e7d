"""Figures that take a walk over all topics and all live lease tables: exact while these are few, else some seconds old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from store.lease.ledger import LeaseLedger
from store.queue.index import QueueIndex

EXACT_MAX: Final = 4_096
"""Topics, or live lease tables, up to which a figure is counted when it is asked for."""


@final
class Census:
    """Counts of queues and leases.

    _queues, _leases   the counts of the last walk
    """

    def __init__(self, index: QueueIndex, ledger: LeaseLedger) -> None:
        self._index = index
        self._ledger = ledger
        self._queues = 0
        self._leases = 0

    def steps(self) -> Iterator[int]:
        """Walk over all topics and live lease tables; yields 1 for each."""
        queues = leases = 0
        for entries in self._index.topics.slices():
            for entry in entries:
                queues += len(entry.queues)
            yield len(entries)
        for table in list(self._ledger.tables.live.values()):
            leases += len(table.leases)
            yield 1
        self._queues, self._leases = queues, leases

    def queues(self) -> int:
        """Queues of all topics, without lite queues."""
        topics = self._index.topics
        return sum(len(entry.queues) for entry in topics.values()) if len(topics) <= EXACT_MAX else self._queues

    def leases(self) -> int:
        """Offsets between the floors and heads that are not settled: held leases and free ones."""
        return self._ledger.leased() if len(self._ledger.tables.live) <= EXACT_MAX else self._leases
