"""Lease tables by (group, topic, queue id). Most are idle: a row of three numbers each (idle_tables.py).

    live  --no lease; lite queues: at the end of the turn, others: after a time without a change-->  idle
    idle  --get-->  live, and journaled again in that turn

The other attributes of an idle table are those of a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from domain.store.store_ports import StateChange
from domain.topic import lite
from store.lease import journal
from store.lease.expiry import LeaseSchedule
from store.lease.idle_tables import LIVE, Chunk, IdleTables
from store.lease.live_tables import LiveTables
from store.lease.pull_progress import Place
from store.lease.table import LeaseTable
from store.state.view import LEASE

FORGET_COST: Final = 8
"""Cost of forgetting a live table, in visits."""


@final
class Removal:
    """A deleted topic whose rows are removed and whose live tables remain to be forgotten.

    lite     prefix of the names of its lite queues
    serial   highest serial of its tables; tables with a higher one belong to a later topic of the same name
    chunks   rows of its tables
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
    removals     removals whose live tables are still in `live`
    _serial      number of tables that have become live
    """

    def __init__(self, activated: Callable[[LeaseTable], None]) -> None:
        """`activated(table)` is called with an idle table that becomes live and has to be journaled in this turn."""
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
        """Table of a place; an idle one becomes live. None without a table."""
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
        table.journaled = table.floor
        self.rows.mark_live(row)
        self._activated(table)
        return table

    def awake(self, place: Place) -> LeaseTable | None:
        """Live table of a place, or None. An idle table stays idle: it has no leases and no puller."""
        table = self.live.get(place)
        if table is None or not self.removals or not self.is_removed(table):
            return table
        del self.live[place]
        self._drop(table)
        return None

    def _drop(self, table: LeaseTable) -> None:
        """Mark `table`, which has left `live`, as dropped, and unschedule it."""
        table.dropped = True
        self.schedule.remove(table)

    def is_removed(self, table: LeaseTable) -> bool:
        """True when `table` was removed with its topic but may still be in `live`."""
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
        """Places of all tables, live and idle. Takes time proportional to their number."""
        return [journal.parse_key(key) for chunk in self.chunks() for key in chunk.keys]

    def places_after(self, place: Place | None, limit: int) -> list[Place]:
        """The next `limit` places behind `place`, in the order of their keys."""
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
        """Copies of all rows in the order of their keys, chunk by chunk. Tables may change between two chunks."""
        chunk = self.rows.after(b"")
        while chunk is not None:
            last = chunk.keys[-1]
            yield chunk
            chunk = self.rows.after(last)

    def take(self, topic: str) -> list[bytes]:
        """Remove the rows of a topic and of its lite queues at once; `forget` has to follow for the live tables.

        Returns the prefixes of state keys for which there was a table.
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
        """Forget the tables that `take` has removed, in steps; yields the cost of each one, in visits.

        `table_of(key, table)` is called with each state key, and with the table if it was live.
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
        """Floor at a place, -1 without a table. An idle table stays idle."""
        table = self.awake(place)
        if table is not None:
            return table.floor
        row = self.rows.find(journal.key(*place))
        return -1 if row < 0 else self.rows.floor(row)

    def is_idle_at(self, place: Place, end: int) -> bool:
        """True when the table of a place is idle with its floor at `end`: it has no message to lease."""
        if place in self.live:
            return False
        row = self.rows.find(journal.key(*place))
        return row >= 0 and self.rows.floor(row) == end

    def put_idle(self, key: bytes, value: bytes, base: int) -> bool:
        """Put the value of an idle table, while recovery reads the log; False for any other value.

        The value is a whole one: a table that earlier values made live becomes idle again.
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
        """Put the idle tables of a snapshot frame."""
        self.rows.load(chunk)

    def make_idle(self, table: LeaseTable, base: int, resting: bool) -> bool:
        """Pack `table`, whose newest whole value is in the segment at `base`; False when it has to stay live.

        `resting`: the table has not changed for a while; only tables of lite queues are packed without that.
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
        """Changes for the idle tables of `chunk` whose newest values are before position `before`.

        The caller writes them into the segment at `base`. `chunk` is a copy made in this turn.
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
        """Live tables among the rows of `chunk`, which was copied in this turn; in a later turn other tables may be live."""
        found: list[LeaseTable] = []
        if LIVE not in chunk.floors:
            return found
        for row, floor in enumerate(chunk.floors):
            if floor == LIVE:
                table = self.live.get(journal.parse_key(chunk.keys[row]))
                if table is not None:
                    found.append(table)
        return found
