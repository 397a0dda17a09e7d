"""Lease tables by (group, topic, queue id). Lite queues are many and mostly idle: an idle table is packed into one integer.

    live  --no lease at the end of a turn, lite queue-->  idle  --get-->  live, and journaled again in that turn

An idle table is its state key and an integer: pop time | floor 64 bits | base of the segment of its newest value 64 |
ordered 1. Its other attributes are those of a new table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from domain import lite
from domain.store_ports import StateChange
from store.lease import journal
from store.lease.pull_progress import Place
from store.lease.table import LeaseTable
from store.state.view import LEASE

_MASK: Final = (1 << 64) - 1
_BASE: Final = 1
_FLOOR: Final = 65
_POP: Final = 129


@final
class LeaseTables:
    """All lease tables. Invariant: a table is live or idle, never both.

    live         (group, topic, queue id) -> table
    _idle        state key -> packed integer, ordered by the segment that holds the newest value
    _activated   called with a table that has become live again, and has to be journaled in this turn
    """

    __slots__ = ("_activated", "_idle", "live")

    def __init__(self, activated: Callable[[LeaseTable], None]) -> None:
        """`activated(table)` is called when an idle table becomes live: it has to be journaled in this turn."""
        self._activated = activated
        self._idle: dict[bytes, int] = {}
        self.live: dict[Place, LeaseTable] = {}

    def __len__(self) -> int:
        return len(self.live) + len(self._idle)

    def __contains__(self, place: Place) -> bool:
        return place in self.live or self._packed(place) >= 0

    def __getitem__(self, place: Place) -> LeaseTable:
        return self.live[place]

    def __setitem__(self, place: Place, table: LeaseTable) -> None:
        self.live[place] = table

    def get(self, place: Place) -> LeaseTable | None:
        """The table of a place; an idle one becomes live. None when there is none."""
        table = self.live.get(place)
        if table is None and self._idle and place[1].startswith(lite.PREFIX):
            packed = self._idle.pop(journal.key(*place), -1)
            if packed >= 0:
                table = self.live[place] = LeaseTable(*place, packed >> _FLOOR & _MASK)
                table.ordered = packed & 1 != 0
                table.pop_ms = packed >> _POP
                self._activated(table)
        return table

    def pop(self, place: Place) -> LeaseTable | None:
        """Remove the table of a place; returns it when it was live."""
        if place[1].startswith(lite.PREFIX):
            self._idle.pop(journal.key(*place), None)
        return self.live.pop(place, None)

    def places(self) -> list[Place]:
        """The places of all tables, live and idle. Takes time proportional to their number."""
        return [*self.live, *map(journal.parse_key, self._idle)]

    def floor(self, place: Place) -> int:
        """The floor at a place, -1 when there is no table. An idle table stays idle."""
        table = self.live.get(place)
        if table is not None:
            return table.floor
        packed = self._packed(place)
        return -1 if packed < 0 else packed >> _FLOOR & _MASK

    def is_idle_at(self, place: Place, end: int) -> bool:
        """True when the table of a place is idle with its floor at `end`: nothing can be leased there."""
        packed = self._packed(place) if self._idle else -1
        return packed >= 0 and packed >> _FLOOR & _MASK == end

    def make_idle(self, table: LeaseTable, base: int) -> bool:
        """Pack `table`, whose whole value is in the segment at `base`, the newest one. False when it has to stay live."""
        if not table.topic.startswith(lite.PREFIX) or table.shared or table.head != table.floor:
            return False
        if not journal.is_idle(table):
            return False
        del self.live[table.group, table.topic, table.queue_id]
        key = journal.key(table.group, table.topic, table.queue_id)
        self._idle[key] = table.pop_ms << _POP | table.floor << _FLOOR | base << _BASE | table.ordered
        table.dropped = True
        return True

    def rewrite_idle(self, before: int, base: int) -> list[StateChange]:
        """The idle values of segments before the one at `before`, to be written into the one at `base`, the newest."""
        old: list[tuple[bytes, int]] = []
        for key, packed in self._idle.items():
            if packed >> _BASE & _MASK >= before:
                break
            old.append((key, packed))
        for key, packed in old:
            del self._idle[key]
            self._idle[key] = packed >> _FLOOR << _FLOOR | base << _BASE | packed & 1
        return [_change(key, packed) for key, packed in old]

    def snapshot(self) -> Iterator[tuple[int, StateChange]]:
        """(base of the segment of the newest value, that value) of the idle tables, oldest first."""
        for key, packed in list(self._idle.items()):
            yield packed >> _BASE & _MASK, _change(key, packed)

    def _packed(self, place: Place) -> int:
        return self._idle.get(journal.key(*place), -1) if place[1].startswith(lite.PREFIX) else -1


def _change(key: bytes, packed: int) -> StateChange:
    value = journal.idle_value(packed >> _FLOOR & _MASK, packed >> _POP, packed & 1 != 0)
    return StateChange(LEASE, key, value)
