"""Replay of the lease table values that recovery reads from the log.

A table may have several values behind the checkpoint, and a whole value replaces all before it. A value therefore waits for
the next one of its table: only the values left at the end become a table with its objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from store.lease import journal
from store.lease.table import LeaseTable
from store.lease.tables import LeaseTables

WAITING_MAX: Final = 32
"""Waiting values of one table, at most; one more applies them."""


@final
class LeaseReplay:
    """Applies the values of tables, in the order of the log. Call `finish` after the last one.

    _waiting   state key -> (value, base of its segment) of the last whole value and the later ones
    """

    def __init__(
        self, tables: LeaseTables, omit: Callable[[LeaseTable], None], anchor: Callable[[LeaseTable, int], None]
    ) -> None:
        """`omit(table)` is called with each table that is removed, `anchor(table, base)` with the segment of a whole value."""
        self._tables = tables
        self._omit = omit
        self._anchor = anchor
        self._waiting: dict[bytes, list[tuple[bytes, int]]] = {}

    def put(self, key: bytes, value: bytes, base: int) -> None:
        """Add the next value of a table, read from the segment at `base`."""
        if self._tables.put_idle(key, value, base):
            self._waiting.pop(key, None)
        elif value[0] & journal.WHOLE_FLAG:
            self._waiting[key] = [(value, base)]
        else:
            values = self._waiting.get(key)
            if values is None:
                values = self._waiting[key] = []
            elif len(values) >= WAITING_MAX:
                self._apply(key, values)
                values.clear()
            values.append((value, base))

    def remove(self, key: bytes) -> None:
        """Remove a table, or all tables of a topic when `key` is the prefix of their keys."""
        if journal.is_key(key):
            self._waiting.pop(key, None)
            table = self._tables.pop(journal.parse_key(key))
            if table is not None:
                self._omit(table)
            return
        self.finish()
        for table in self._tables.take_prefix(key)[1]:
            self._omit(table)

    def finish(self) -> None:
        """Apply all waiting values."""
        waiting, self._waiting = self._waiting, {}
        for key, values in waiting.items():
            self._apply(key, values)

    def _apply(self, key: bytes, values: list[tuple[bytes, int]]) -> None:
        """Apply values to their table, which becomes live."""
        place = journal.parse_key(key)
        for value, base in values:
            table = self._tables.live.get(place)
            if table is None:
                # An idle table has no offsets between floor and head: this value holds all changes since.
                table = self._tables[place] = LeaseTable(*place, 0)
            journal.apply(table, value)
            if value[0] & journal.WHOLE_FLAG or journal.is_idle(table):
                self._anchor(table, base)
