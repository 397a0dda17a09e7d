"""Lease tables by (group, topic, queue id). Most are idle: an idle table is packed into one integer.

    live  --no lease; lite queues: at the end of the turn, others: when nothing has changed for a while-->  idle
    idle  --get-->  live, and journaled again in that turn

An idle table is its state key and an integer: pop time | floor 64 bits | base of the segment of its newest value 64 |
ordered 1. Its other attributes are those of a new table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, final

from domain import lite
from domain.store_ports import StateChange
from store.lease import journal
from store.lease.pull_progress import Place
from store.lease.table import LeaseTable
from store.state.keys import SortedKeys
from store.state.view import LEASE

_MASK: Final = (1 << 64) - 1
_BASE: Final = 1
_FLOOR: Final = 65
_POP: Final = 129
_LIVE: Final = -1


@final
class LeaseTables:
    """All lease tables. Invariant: a table is live or idle, never both.

    live         (group, topic, queue id) -> table
    _packed      state key of every table -> packed integer, _LIVE for live ones
    _keys        the same keys, sorted: those of a topic are neighbours
    _activated   called with a table that has become live again, and has to be journaled in this turn
    """

    __slots__ = ("_activated", "_keys", "_packed", "live")

    def __init__(self, activated: Callable[[LeaseTable], None]) -> None:
        """`activated(table)` is called when an idle table becomes live: it has to be journaled in this turn."""
        self._activated = activated
        self._packed: dict[bytes, int] = {}
        self._keys = SortedKeys()
        self.live: dict[Place, LeaseTable] = {}

    def __len__(self) -> int:
        return len(self._packed)

    def __contains__(self, place: Place) -> bool:
        return place in self.live or journal.key(*place) in self._packed

    def __getitem__(self, place: Place) -> LeaseTable:
        return self.live[place]

    def __setitem__(self, place: Place, table: LeaseTable) -> None:
        self.live[place] = table
        self._put(journal.key(*place), _LIVE)

    def get(self, place: Place) -> LeaseTable | None:
        """The table of a place; an idle one becomes live. None when there is none."""
        table = self.live.get(place)
        if table is not None:
            return table
        key = journal.key(*place)
        packed = self._packed.get(key, _LIVE)
        if packed == _LIVE:
            return None
        table = self.live[place] = LeaseTable(*place, packed >> _FLOOR & _MASK)
        table.ordered = packed & 1 != 0
        table.pop_ms = packed >> _POP
        self._packed[key] = _LIVE
        self._activated(table)
        return table

    def awake(self, place: Place) -> LeaseTable | None:
        """The table of a place if it is live. An idle one has no leases and no puller; it stays idle."""
        return self.live.get(place)

    def pop(self, place: Place) -> LeaseTable | None:
        """Remove the table of a place; returns it when it was live."""
        key = journal.key(*place)
        if key in self._packed:
            del self._packed[key]
            self._keys.remove(key)
        return self.live.pop(place, None)

    def places(self) -> list[Place]:
        """The places of all tables, live and idle. Takes time proportional to their number."""
        return [journal.parse_key(key) for key in self._packed]

    def places_after(self, place: Place | None, limit: int) -> list[Place]:
        """At most `limit` places in the order of their keys, from the one behind `place` on."""
        key = b"" if place is None else journal.key(*place) + b"\x00"
        return [journal.parse_key(each) for each in islice(self._keys.since(key), limit)]

    def places_of_group(self, group: str) -> list[Place]:
        """The places of the tables of a group. Looks at all state keys, 50 ns each: that many cannot be copied faster."""
        middle = f"\x00{group}\x00".encode()
        return [journal.parse_key(key) for key in self._packed if middle in key]

    def take(self, prefix: bytes) -> tuple[list[bytes], list[LeaseTable]]:
        """Remove the tables whose state keys begin with `prefix`: those of a topic, or of all its lite queues.

        Returns (their state keys, the tables that were live). An idle one costs less than a microsecond.
        """
        keys = self._keys.take(prefix)
        live: list[LeaseTable] = []
        for key in keys:
            if self._packed.pop(key) == _LIVE:
                live.append(self.live.pop(journal.parse_key(key)))
        return keys, live

    def state_keys(self) -> list[bytes]:
        """The state keys of all tables now."""
        return list(self._packed)

    def floor(self, place: Place) -> int:
        """The floor at a place, -1 when there is no table. An idle table stays idle."""
        table = self.live.get(place)
        if table is not None:
            return table.floor
        packed = self._packed.get(journal.key(*place), _LIVE)
        return -1 if packed == _LIVE else packed >> _FLOOR & _MASK

    def is_idle_at(self, place: Place, end: int) -> bool:
        """True when the table of a place is idle with its floor at `end`: nothing can be leased there."""
        if place in self.live:
            return False
        packed = self._packed.get(journal.key(*place), _LIVE)
        return packed != _LIVE and packed >> _FLOOR & _MASK == end

    def put_idle(self, key: bytes, value: bytes, base: int) -> bool:
        """Put the table of a state value as idle; False when the value is not that of an idle one, or the table is live."""
        facts = journal.idle_facts(value)
        if facts is None or self._packed.get(key, 0) == _LIVE:
            return False
        floor, pop_ms, ordered = facts
        self._put(key, pop_ms << _POP | floor << _FLOOR | base << _BASE | ordered)
        return True

    def make_idle(self, table: LeaseTable, base: int, resting: bool) -> bool:
        """Pack `table`, whose newest whole value is in the segment at `base`. False when it has to stay live.

        `resting`: it has not changed for a while. Tables of lite queues are packed before that.
        """
        if table.head != table.floor or not journal.is_idle(table) or table.puller or table.late_returns:
            return False
        if not resting and (table.shared or not table.topic.startswith(lite.PREFIX)):
            return False
        del self.live[table.group, table.topic, table.queue_id]
        key = journal.key(table.group, table.topic, table.queue_id)
        self._packed[key] = table.pop_ms << _POP | table.floor << _FLOOR | base << _BASE | table.ordered
        table.dropped = True
        return True

    def rewrite_idle(self, key: bytes, before: int, base: int) -> StateChange | None:
        """The value of an idle table whose newest one is before position `before`, to be written into the segment at `base`."""
        packed = self._packed.get(key, _LIVE)
        if packed == _LIVE or packed >> _BASE & _MASK >= before:
            return None
        self._packed[key] = packed >> _FLOOR << _FLOOR | base << _BASE | packed & 1
        return _change(key, packed)

    def snapshot(self) -> Iterator[tuple[int, StateChange] | None]:
        """(base of the segment of the newest value, that value) of the idle tables; None for each table that is not idle."""
        for key in self.state_keys():
            packed = self._packed.get(key, _LIVE)
            yield None if packed == _LIVE else (packed >> _BASE & _MASK, _change(key, packed))

    def _put(self, key: bytes, packed: int) -> None:
        if key not in self._packed:
            self._keys.add(key)
        self._packed[key] = packed


def _change(key: bytes, packed: int) -> StateChange:
    value = journal.idle_value(packed >> _FLOOR & _MASK, packed >> _POP, packed & 1 != 0)
    return StateChange(LEASE, key, value)
