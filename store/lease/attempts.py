"""Attempts of unordered receives: the queues that have leased messages to each attempt of a client.

A client that got no answer repeats its receive with the same attempt id, and gets the same messages again. The tables hold the
pop time of each attempt (LeaseTable.attempt_pops); this module finds the tables.
"""

from __future__ import annotations

from typing import Final, final

from store.lease.table import LeaseTable

ATTEMPTS_IN_ALL_MAX: Final = 16_384
"""Limit on remembered attempts, of all groups together; the oldest is forgotten first. About 400 bytes each."""


@final
class Attempts:
    """The queues of each attempt: (group, topic, attempt id) -> queue ids, the oldest attempt first."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str, str], list[int]] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def add(self, table: LeaseTable, attempt_id: str) -> None:
        """Record that the attempt has got messages of the queue of `table`."""
        key = (table.group, table.topic, attempt_id)
        queues = self._queues.get(key)
        if queues is None:
            if len(self._queues) >= ATTEMPTS_IN_ALL_MAX:
                del self._queues[next(iter(self._queues))]
            self._queues[key] = [table.queue_id]
        elif table.queue_id not in queues:
            queues.append(table.queue_id)

    def load(self, table: LeaseTable) -> None:
        """Add the attempts of a table that recovery has read."""
        for attempt_id in table.attempt_pops:
            self.add(table, attempt_id)

    def queues(self, group: str, topic: str, attempt_id: str) -> list[int]:
        """The queues of the topic that have leased messages to the attempt."""
        return self._queues.get((group, topic, attempt_id), [])
