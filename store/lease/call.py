"""One lease call while it goes from queue to queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from domain import limits
from domain.event import Leased
from domain.filter.filter import Filter
from domain.priority import again_first, by_priority
from domain.receipt import Receipt
from domain.record import Record, with_reconsume_times
from store.lease.table import LeaseTable
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row, within

SCAN_ROWS_MAX: Final = 4_096
SCAN_BYTES_MAX: Final = 4 * 1024 * 1024
"""What one call looks at at most, messages that are not wanted included."""
READ_BYTES_MAX: Final = 512 * 1024
WHOLE: Final = 0
FRESH: Final = 1
AGAIN: Final = 2
"""What a call does with a queue: everything, or apart what nobody has had and what comes again."""
_AT_ONCE: Final = (WHOLE,)
_FRESH_FIRST: Final = (FRESH, AGAIN)
_AGAIN_FIRST: Final = (AGAIN, FRESH)


def steps(queue_id: int) -> tuple[int, ...]:
    """What is done with all queues, one step after the other; `queue_id` as domain/priority.looking has it, or a queue's."""
    if not by_priority(queue_id):
        return _AT_ONCE
    return _AGAIN_FIRST if again_first(queue_id) else _FRESH_FIRST


class RecordSource(Protocol):
    """Where a call gets its messages."""

    def records(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of rows."""

    def move_on(self, table: LeaseTable, offset: int, record: bytes, retry_topic: str = "") -> None:
        """Copy a message to the retry topic of its leases ("") or the one named, and settle it in the same commit."""


class LeaseCall:
    """What is asked for, and what has been got so far."""

    __slots__ = (
        "_broker", "_bytes", "_index", "_rows", "_source", "fleeting", "invisible_ms", "limit", "messages", "now", "pop_ms",
        "rest", "revive_queue", "unfinished", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        index: QueueIndex,
        source: RecordSource,
        broker: str,
        now: int,
        limit: int,
        invisible_ms: int,
        wanted: Filter | None,
    ) -> None:
        self._index = index
        self._source = source
        self.limit = limit
        self.now = now
        self.invisible_ms = invisible_ms
        self.wanted = wanted
        self.revive_queue = 0
        self.fleeting = False
        self.messages: list[Leased] = []
        self.pop_ms = now
        self.rest = 0
        self.unfinished = False
        self._rows = 0
        self._bytes = 0
        self._broker = broker

    def agree(self, table: LeaseTable) -> None:
        """Choose a pop time that `table` has not used: no queue is passed over for having been leased from this millisecond."""
        if table.pop_ms >= self.pop_ms:
            self.pop_ms = table.pop_ms + 1

    def prepare(self, table: LeaseTable, queue: Queue) -> None:
        """What FRESH and AGAIN want of all tables before the first one is leased from."""
        self.agree(table)
        table.expire(self.now)
        self.rest += max(queue.visible - table.head + len(table.returned), 0)

    def take(self, step: int, table: LeaseTable, queue: Queue) -> bool:
        """One of `steps` with one queue; True when the table has changed."""
        if step == WHOLE:
            return self.take_from(table, queue)
        if step == FRESH:
            before = table.head
            changed = self._fresh(table, queue)
            self.rest -= table.head - before
            return changed
        again = table.free(self.limit - len(self.messages))
        self.rest -= len(again)
        return self._again(table, queue, again, True, True)

    def take_from(self, table: LeaseTable, queue: Queue) -> bool:
        """Lease from one queue; True when the table has changed."""
        table.expire(self.now)
        visible = queue.visible
        waiting = visible - table.head + len(table.returned)
        room = self.limit - len(self.messages)
        if waiting <= 0 or room == 0 or not self._name(table):
            self.rest += max(waiting, 0)
            return False
        before = table.head
        again = table.free(room)
        changed = self._again(table, queue, again, True, True)
        changed = self._fresh(table, queue) or changed
        self.rest += max(waiting - len(again) - (table.head - before), 0)
        return changed

    def would_take(self, table: LeaseTable, queue: Queue) -> bool:
        """Whether `take_from` would find something, wanted or not. Changes nothing."""
        if max(table.head, queue.first) < queue.visible:
            return True
        return any(lease.free or lease.end_ms <= self.now for lease in table.leases.values())

    def _again(self, table: LeaseTable, queue: Queue, offsets: list[int], attempt: bool, may_move: bool) -> bool:
        for offset in offsets:
            rows = self._index.rows(queue, offset, 1)
            records = self._source.records(rows)
            if not records or not self._wants(records[0]):
                table.pass_by(offset)
                continue
            if may_move and table.overdue(offset, self.now):
                self._source.move_on(table, offset, records[0])
                continue
            self._deliver(table, queue, offset, records[0], attempt)
        return bool(offsets)

    def _deliver(self, table: LeaseTable, queue: Queue, offset: int, data: bytes, attempt: bool) -> None:
        """Lease `offset` once more."""
        lease = table.take(offset, self.pop_ms, self.pop_ms + self.invisible_ms, attempt)
        lease.fleeting = self.fleeting
        view = Record(data)
        times = view.reconsume_times + lease.attempts - 1
        if lease.attempts > 1:
            data = with_reconsume_times(data, times)
        self._add(data, queue.id, offset, view.physical_offset, times + 1)

    def _fresh(self, table: LeaseTable, queue: Queue) -> bool:
        """Lease from the head on, and settle in passing what is not wanted; `unfinished` when there is too much of it."""
        began = table.head
        while True:
            room = min(self.limit - len(self.messages), limits.LEASES_PER_QUEUE_MAX - len(table.leases))
            offset = table.head
            if room <= 0 or offset >= queue.visible:
                break
            if self._rows >= SCAN_ROWS_MAX or self._bytes >= SCAN_BYTES_MAX:
                self.unfinished = True
                break
            step = room if self.wanted is None else max(room, 256)
            rows = self._index.rows(queue, offset, min(step, queue.visible - offset))
            if not rows:
                break
            if self.wanted is None:
                for place, record in enumerate(self._source.records(rows), offset):
                    self._take(table, queue, place, record)
                self._rows += len(rows)
            else:
                self._choose(table, queue, rows, room, self.wanted)
        return table.head != began

    def _choose(self, table: LeaseTable, queue: Queue, rows: Sequence[Row], room: int, wanted: Filter) -> None:
        """Lease at most `room` of `rows`, and pass by those before and between them."""
        offset = table.head
        picked, last = self._picked(rows, room, wanted.hashes)
        for at, record in zip(picked, self._source.records([rows[at] for at in picked]), strict=True):
            if room == 0:
                last = at
                break
            table.pass_to(offset + at)
            if wanted.matches(Record(record).properties):
                room -= 1
                self._take(table, queue, offset + at, record)
            else:
                self._bytes += len(record)
        self._rows += last
        table.pass_to(offset + last)

    def _take(self, table: LeaseTable, queue: Queue, offset: int, record: bytes) -> None:
        table.take(offset, self.pop_ms, self.pop_ms + self.invisible_ms).fleeting = self.fleeting
        view = Record(record)
        self._add(record, queue.id, offset, view.physical_offset, view.reconsume_times + 1)

    def _picked(self, rows: Sequence[Row], room: int, hashes: frozenset[int] | None) -> tuple[Sequence[int], int]:
        """Which rows to read, and how many rows that decides on: by tag hash where the filter has them, else all in turn."""
        if hashes is None:
            count = len(within(rows, READ_BYTES_MAX))
            return range(count), count
        picked = [at for at, row in enumerate(rows) if row[2] in hashes][:room]
        return picked, picked[-1] + 1 if len(picked) == room else len(rows)

    def _name(self, table: LeaseTable) -> bool:
        """Agree on a pop time with `table`; False when what is leased already carries one that it has used."""
        if table.pop_ms >= self.pop_ms:
            if self.messages:
                return False
            self.pop_ms = table.pop_ms + 1
        return True

    def _wants(self, record: bytes) -> bool:
        return self.wanted is None or self.wanted.matches(Record(record).properties)

    def _add(self, data: bytes, queue_id: int, offset: int, physical_offset: int, attempt: int) -> None:
        receipt = Receipt(
            offset, self.pop_ms, self.invisible_ms, self.revive_queue, 0, self._broker, queue_id, offset, physical_offset
        )
        self.messages.append(Leased(data, receipt, attempt))
