"""Positions of groups as readers get them: the newest floor of each lease table that its log cannot lose any more.

A table changes at once, and its journal is written at the end of the turn. Until the journal has reached the durability level
of the topic, on all members of the SyncStateSet of a replicated group, a crash or another leader takes the change back.

    floor of the table --journaled--> waits, with the begin of its batch --the log has reached the batch--> read
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol, final

from store.lease import journal
from store.lease.pull_progress import Place
from store.lease.table import LeaseTable
from store.lease.tables import LeaseTables

WAITING_MAX: Final = 64
"""Floors of a level that wait until a reader asks; with more, each further one takes two that are confirmed out."""


class ReachedLog(Protocol):
    """The log of the journal."""

    def reached(self, flushed: bool) -> int:
        """Position up to which what is written can be acknowledged at level `flushed`, or at `page`."""

    @property
    def alone(self) -> bool:
        """True: no other replica confirms what is written here."""


@final
class _Changing:
    """A table with floors that wait.

    floor     the newest confirmed one; -1: the table was made since
    serial    number of the newest confirmed one
    waiting   number of floors that wait
    """

    __slots__ = ("floor", "serial", "waiting")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.serial = 0
        self.waiting = 0


@final
class ConfirmedFloors:
    """The confirmed floors of tables whose newest floor is not confirmed; the other tables have theirs themselves.

    _changing   state key -> its table with floors that wait
    _waiting    level `page`, level `flushed` -> (begin of the batch, state key, floor, serial), in the order of the log
    _serial     number of floors so far
    """

    def __init__(self, tables: LeaseTables, log: ReachedLog) -> None:
        self._tables = tables
        self._log = log
        self._changing: dict[bytes, _Changing] = {}
        self._waiting: tuple[deque[tuple[int, bytes, int, int]], deque[tuple[int, bytes, int, int]]] = (deque(), deque())
        self._serial = 0

    def __len__(self) -> int:
        """Number of tables with a floor that waits, or is confirmed and not looked at yet."""
        return len(self._changing)

    def journaled(self, table: LeaseTable, begin: int, flushed: bool | None) -> None:
        """The floor of `table` was journaled in the batch that begins at `begin`.

        `flushed`: level for which somebody waits; None: nobody waits, and nothing is promised. Then readers of a store without
        other replicas wait for nothing: a write waits for the sync before it, and a consumer that takes over must not.
        """
        if table.floor == table.journaled:
            return
        key = journal.key(table.group, table.topic, table.queue_id)
        changing = self._changing.get(key)
        if flushed is None and self._log.alone:
            self._serial += 1
            if changing is not None:
                changing.floor, changing.serial = table.floor, self._serial
            table.journaled = table.floor
            return
        flushed = bool(flushed)
        if len(self._waiting[flushed]) >= WAITING_MAX:
            self._confirm(2)
            changing = self._changing.get(key)
        if changing is None:
            changing = self._changing[key] = _Changing(table.journaled)
        self._serial += 1
        changing.waiting += 1
        self._waiting[flushed].append((begin, key, table.floor, self._serial))
        table.journaled = table.floor

    def floor(self, place: Place) -> int:
        """The confirmed floor of the table at a place; -1: there is no table, or none of its floors is confirmed."""
        self._confirm(len(self._waiting[0]) + len(self._waiting[1]))
        changing = self._changing.get(journal.key(*place))
        if changing is not None:
            return changing.floor
        table = self._tables.awake(place)
        return self._tables.floor(place) if table is None else table.journaled

    def _confirm(self, most: int) -> None:
        """Take the floors that the log has reached, `most` of each level."""
        for flushed, waiting in enumerate(self._waiting):
            if not waiting:
                continue
            reached, left = self._log.reached(bool(flushed)), most
            while waiting and waiting[0][0] < reached and left:
                left -= 1
                _, key, floor, serial = waiting.popleft()
                changing = self._changing[key]
                if serial > changing.serial:
                    changing.floor, changing.serial = floor, serial
                changing.waiting -= 1
                if not changing.waiting:
                    del self._changing[key]
