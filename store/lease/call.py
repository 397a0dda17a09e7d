"""One lease call while it goes from queue to queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final

from domain import limits
from domain.event import Leased
from domain.filter.tag import TagFilter
from domain.receipt import ORDERED_REVIVE_QUEUE, Receipt
from domain.record import Record, with_reconsume_times
from store.lease.table import LeaseTable
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row

SCAN_ROWS_MAX: Final = 4_096


class Source(Protocol):
    """Where a call gets its messages."""

    def records(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of rows."""

    def move_on(self, table: LeaseTable, offset: int, record: bytes) -> None:
        """Copy a message that holds the floor too far back to the retry topic, and settle it in the same commit."""


@final
class LeaseCall:
    """What is asked for, and what has been got so far."""

    __slots__ = (
        "_broker", "_index", "_source", "attempt_id", "invisible_ms", "limit", "messages", "now", "ordered", "pop_ms",
        "rest", "tags",
    )  # fmt: skip

    def __init__(
        self,
        index: QueueIndex,
        source: Source,
        broker: str,
        now: int,
        limit: int,
        invisible_ms: int,
        tags: TagFilter | None,
        ordered: bool,
        attempt_id: str,
    ) -> None:
        self._index = index
        self._source = source
        self.limit = limit
        self.now = now
        self.invisible_ms = invisible_ms
        self.tags = tags
        self.ordered = ordered
        self.attempt_id = attempt_id
        self.messages: list[Leased] = []
        self.pop_ms = now
        self.rest = 0
        self._broker = broker

    def take_from(self, table: LeaseTable, queue: Queue) -> bool:
        """Lease from one queue; True when the table has changed."""
        table.expire(self.now)
        visible = queue.visible
        waiting = visible - table.head + len(table.returned)
        room = self.limit - len(self.messages)
        blocked = waiting <= 0 and not (self.ordered and table.leases)
        if blocked or room == 0 or not self._name(table):
            self.rest += max(waiting, 0)
            return False
        before = len(self.messages)
        attempt = True
        if self.ordered and table.leases and table.held(self.now):
            if not self.attempt_id or self.attempt_id != table.attempt_id:
                return False
            attempt = False
            again = sorted(table.leases)[:room]
        else:
            again = table.free(room)
        changed = self._again(table, queue, again, attempt)
        if attempt:
            changed = self._fresh(table, queue) or changed
            if self.ordered and changed:
                table.attempt_id = self.attempt_id
        taken = len(self.messages) - before
        self.rest += max(waiting - taken, 0)
        return changed

    def _again(self, table: LeaseTable, queue: Queue, offsets: list[int], attempt: bool) -> bool:
        for offset in offsets:
            rows = self._index.rows(queue, offset, 1)
            records = self._source.records(rows)
            if not records or not self._wants(records[0]):
                table.pass_by(offset)
                continue
            if attempt and not self.ordered and table.overdue(offset, self.now):
                self._source.move_on(table, offset, records[0])
                continue
            lease = table.take(offset, self.pop_ms, self.pop_ms + self.invisible_ms, attempt)
            data = records[0]
            view = Record(data)
            times = view.reconsume_times + lease.attempts - 1
            if lease.attempts > 1:
                data = with_reconsume_times(data, times)
            self._add(data, queue.id, offset, view.physical_offset, times + 1)
        return bool(offsets)

    def _fresh(self, table: LeaseTable, queue: Queue) -> bool:
        """Lease from the head on."""
        tags = self.tags
        scanned = 0
        began = table.head
        while scanned < SCAN_ROWS_MAX:
            room = min(self.limit - len(self.messages), limits.LEASES_PER_QUEUE_MAX - len(table.leases))
            offset = table.head
            if room <= 0 or offset >= queue.visible:
                break
            step = room if tags is None else max(room, 256)
            rows = self._index.rows(queue, offset, min(step, queue.visible - offset))
            if not rows:
                break
            scanned += len(rows)
            if tags is None:
                wanted, last = rows, len(rows)
                positions = list(range(offset, offset + len(rows)))
            else:
                hashes = tags.hashes
                picked = [at for at, row in enumerate(rows) if row[2] in hashes][:room]
                wanted = [rows[at] for at in picked]
                positions = [offset + at for at in picked]
                last = picked[-1] + 1 if len(picked) == room else len(rows)
            for place, record in zip(positions, self._source.records(wanted), strict=True):
                table.pass_to(place)
                if tags is not None and not self._wants(record):
                    continue
                table.take(place, self.pop_ms, self.pop_ms + self.invisible_ms)
                view = Record(record)
                self._add(record, queue.id, place, view.physical_offset, view.reconsume_times + 1)
            table.pass_to(offset + last)
        return table.head != began

    def _name(self, table: LeaseTable) -> bool:
        """Agree on a pop time with `table`; False when what is leased already carries one that it has used."""
        if table.pop_ms >= self.pop_ms:
            if self.messages:
                return False
            self.pop_ms = table.pop_ms + 1
        return True

    def _wants(self, record: bytes) -> bool:
        return self.tags is None or self.tags.matches(Record(record).properties)

    def _add(self, data: bytes, queue_id: int, offset: int, physical_offset: int, attempt: int) -> None:
        revive = ORDERED_REVIVE_QUEUE if self.ordered else 0
        receipt = Receipt(
            offset, self.pop_ms, self.invisible_ms, revive, 0, self._broker, queue_id, offset, physical_offset
        )
        self.messages.append(Leased(data, receipt, attempt))
