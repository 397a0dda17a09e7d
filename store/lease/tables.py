"""Lease tables by (group, topic, queue id). Most are idle: an idle table is a row of a few numbers (idle_tables.py).

    live  --no lease; lite queues: at the end of the turn, others: when nothing has changed for a while-->  idle
    idle  --get-->  live, and journaled again in that turn

The other attributes of an idle table are those of a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from domain import lite
from domain.store.store_ports import StateChange
from store.lease import journal
from store.lease.idle_tables import LIVE, Chunk, IdleTables
from store.lease.live_tables import LiveTables
from store.lease.pull_progress import Place
from store.lease.schedule import LeaseSchedule
from store.lease.table import LeaseTable
from store.state.view import LEASE

FORGET_COST: Final = 8
"""What it costs to forget a live table, in visits."""


@final
class Removal:
    """A topic whose tables have been removed, and whose live tables have still to be forgotten.

    topic    its name
    lite     what the names of its lite queues begin with
    serial   later tables belong to a later topic of the same name
    chunks   the rows of its tables
    """

    __slots__ = ("chunks", "lite", "serial", "topic")

    def __init__(self, topic: str, serial: int, chunks: list[Chunk]) -> None:
        self.topic = topic
        self.lite = lite.queue_name(topic, "")
        self.serial = serial
        self.chunks = chunks


@final
class LeaseTables:
    """All lease tables. Invariant: a table is live or idle, never both, and has a row.

    live         (group, topic, queue id) -> table
    rows         a row for each table, by state key
    removals     removals whose live tables are still in `live`
    schedule     the live tables with leases; a table that is no longer live is not in it
    _serial      number of tables that have become live
    _activated   called with a table that has become live again, and has to be journaled in this turn
    """

    __slots__ = ("_activated", "_serial", "live", "removals", "rows", "schedule")

    def __init__(self, activated: Callable[[LeaseTable], None]) -> None:
        """`activated(table)` is called when an idle table becomes live: it has to be journaled in this turn."""
        self._activated = activated
        self._serial = 0
        self.rows = IdleTables()
        self.live = LiveTables()
        self.removals: list[Removal] = []
        self.schedule = LeaseSchedule()

    def __len__(self) -> int:
        return self.rows.count

    def __contains__(self, place: Place) -> bool:
        return self.rows.find(journal.key(*place)) >= 0

    def __getitem__(self, place: Place) -> LeaseTable:
        return self.live[place]

    def __setitem__(self, place: Place, table: LeaseTable) -> None:
        self._number(table)
        self.live[place] = table
        self.rows.put(journal.key(*place), LIVE, 0, 0, False)

    def _number(self, table: LeaseTable) -> None:
        self._serial += 1
        table.serial = self._serial

    def get(self, place: Place) -> LeaseTable | None:
        """The table of a place; an idle one becomes live. None when there is none."""
        table = self.awake(place)
        if table is not None:
            return table
        row = self.rows.find(journal.key(*place))
        if row < 0 or self.rows.floor(row) == LIVE:
            return None
        table = LeaseTable(*place, self.rows.floor(row))
        self.live[place] = table
        self._number(table)
        table.ordered = self.rows.ordered(row)
        table.pop_ms = self.rows.pop_ms(row)
        self.rows.mark_live(row)
        self._activated(table)
        return table

    def awake(self, place: Place) -> LeaseTable | None:
        """The table of a place if it is live. An idle one has no leases and no puller; it stays idle."""
        table = self.live.get(place)
        if table is None or not self.removals or not self.is_removed(table):
            return table
        del self.live[place]
        self._drop(table)
        return None

    def _drop(self, table: LeaseTable) -> None:
        """Note that `table` is no longer in `live`."""
        table.dropped = True
        self.schedule.remove(table)

    def is_removed(self, table: LeaseTable) -> bool:
        """True when `table` was removed with its topic, and is still in `live`."""
        for removal in self.removals:
            if table.serial <= removal.serial and (table.topic == removal.topic or table.topic.startswith(removal.lite)):
                return True
        return False

    def is_removing(self, topic: str) -> bool:
        """True while the tables of an earlier topic of this name, or of an earlier lite queue, are being forgotten."""
        return any(topic == removal.topic or topic.startswith(removal.lite) for removal in self.removals)

    def pop(self, place: Place) -> LeaseTable | None:
        """Remove the table of a place; returns it when it was live."""
        self.rows.remove(journal.key(*place))
        table = self.live.pop(place)
        if table is not None:
            self._drop(table)
        return table

    def places(self) -> list[Place]:
        """The places of all tables, live and idle. Takes time proportional to their number."""
        return [journal.parse_key(key) for chunk in self.chunks() for key in chunk.keys]

    def places_after(self, place: Place | None, limit: int) -> list[Place]:
        """At most `limit` places in the order of their keys, from the one behind `place` on."""
        key = b"" if place is None else journal.key(*place)
        found: list[Place] = []
        while len(found) < limit:
            chunk = self.rows.after(key)
            if chunk is None:
                break
            found += [journal.parse_key(each) for each in chunk.keys[: limit - len(found)]]
            key = chunk.keys[-1]
        return found

    def chunks(self) -> Iterator[Chunk]:
        """Copies of all rows, in the order of their keys. Tables may change between two chunks."""
        chunk = self.rows.after(b"")
        while chunk is not None:
            last = chunk.keys[-1]
            yield chunk
            chunk = self.rows.after(last)

    def take(self, topic: str) -> list[bytes]:
        """Remove the tables of a topic and of its lite queues: at once, but `forget` has to follow.

        Returns the beginnings of their state keys for which there was a table.
        """
        found: list[bytes] = []
        chunks: list[Chunk] = []
        for name in (f"{topic}\x00", lite.queue_name(topic, "")):
            prefix = name.encode()
            taken = self.rows.take(prefix)
            if taken:
                found.append(prefix)
                chunks += taken
        if chunks:
            self.removals.append(Removal(topic, self._serial, chunks))
        return found

    def take_prefix(self, prefix: bytes) -> tuple[list[bytes], list[LeaseTable]]:
        """Remove the tables whose state keys begin with `prefix`, while recovery reads the log.

        Returns (their state keys, the tables that were live).
        """
        keys: list[bytes] = []
        live: list[LeaseTable] = []
        for chunk in self.rows.take(prefix):
            keys += chunk.keys
            for row, floor in enumerate(chunk.floors):
                if floor == LIVE:
                    table = self.live.pop(journal.parse_key(chunk.keys[row]))
                    assert table is not None
                    self._drop(table)
                    live.append(table)
        return keys, live

    def forget(self, table_of: Callable[[bytes, LeaseTable | None], None]) -> Iterator[int]:
        """Forget what `take` has removed; yields the cost of each step, in visits.

        `table_of(key, table)` is called with each state key, and its table when it was live.
        """
        while self.removals:
            removal = self.removals[0]
            while removal.chunks:
                chunk = removal.chunks.pop()
                cost = 0
                for row, key in enumerate(chunk.keys):
                    table: LeaseTable | None = None
                    cost += 1
                    if chunk.floors[row] == LIVE:
                        cost += FORGET_COST
                        place = journal.parse_key(key)
                        table = self.live.get(place)
                        if table is not None and table.serial <= removal.serial:
                            del self.live[place]
                            self._drop(table)
                        else:
                            table = None
                    table_of(key, table)
                yield cost
            self.removals.pop(0)

    def floor(self, place: Place) -> int:
        """The floor at a place, -1 when there is no table. An idle table stays idle."""
        table = self.awake(place)
        if table is not None:
            return table.floor
        row = self.rows.find(journal.key(*place))
        return -1 if row < 0 else self.rows.floor(row)

    def is_idle_at(self, place: Place, end: int) -> bool:
        """True when the table of a place is idle with its floor at `end`: nothing can be leased there."""
        if place in self.live:
            return False
        row = self.rows.find(journal.key(*place))
        return row >= 0 and self.rows.floor(row) == end

    def put_idle(self, key: bytes, value: bytes, base: int) -> bool:
        """Put the table of a state value as idle, while recovery reads the log; False for any other value.

        Such a value is the whole of a table: one that earlier values made live is idle again at once.
        """
        facts = journal.idle_facts(value)
        if facts is None:
            return False
        row = self.rows.find(key)
        if row >= 0 and self.rows.floor(row) == LIVE:
            table = self.live.pop(journal.parse_key(key))
            if table is not None:
                self._drop(table)
        floor, pop_ms, ordered = facts
        if row >= 0:
            self.rows.set(row, floor, pop_ms, base, ordered)
        else:
            self.rows.put(key, floor, pop_ms, base, ordered)
        return True

    def load(self, chunk: Chunk) -> None:
        """Put the idle tables of a frame of a snapshot."""
        self.rows.load(chunk)

    def make_idle(self, table: LeaseTable, base: int, resting: bool) -> bool:
        """Pack `table`, whose newest whole value is in the segment at `base`. False when it has to stay live.

        `resting`: it has not changed for a while. Tables of lite queues are packed before that.
        """
        if table.head != table.floor or not journal.is_idle(table) or table.puller or table.late_returns:
            return False
        if not resting and (table.shared or not table.topic.startswith(lite.PREFIX)):
            return False
        place = (table.group, table.topic, table.queue_id)
        if self.live.get(place) is not table or (self.removals and self.is_removed(table)):
            return False
        del self.live[place]
        self.rows.put(journal.key(*place), table.floor, table.pop_ms, base, table.ordered)
        self._drop(table)
        return True

    def rewritten(self, chunk: Chunk, before: int, base: int) -> list[StateChange]:
        """The values of the idle tables of `chunk` whose newest ones are before position `before`.

        They are to be written into the segment at `base`. `chunk` is a copy that was made in this turn.
        """
        found: list[StateChange] = []
        if not chunk.bases or min(chunk.bases) >> 1 >= before:
            return found
        for row, marked in enumerate(chunk.bases):
            floor = chunk.floors[row]
            if marked >> 1 < before and floor != LIVE:
                key = chunk.keys[row]
                self.rows.rebase(key, base)
                found.append(StateChange(LEASE, key, journal.idle_value(floor, chunk.pops[row], marked & 1 == 1)))
        return found

    def live_in(self, chunk: Chunk) -> list[LeaseTable]:
        """The live tables among the rows of `chunk`, which was copied in this turn: in later ones others are live."""
        found: list[LeaseTable] = []
        if LIVE not in chunk.floors:
            return found
        for row, floor in enumerate(chunk.floors):
            if floor == LIVE:
                table = self.live.get(journal.parse_key(chunk.keys[row]))
                if table is not None:
                    found.append(table)
        return found
