"""One lease call over one queue or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain import limits
from domain.delivery.priority import again_first, by_priority
from domain.errors import StoreError
from domain.event import Leased
from domain.filter.filter import Filter
from domain.message.receipt import Receipt
from domain.message.record import Record, with_reconsume_times
from domain.store.store_request import LeaseRequest
from domain.topic import lite
from store.lease.lease_records import LeaseSource
from store.lease.table import LeaseTable
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row, rows_within
from store.reads.reading import readable

SCAN_ROWS_MAX: Final = 4_096
SCAN_BYTES_MAX: Final = 4 * 1024 * 1024
"""Limits of one call, after which it ends `unfinished`: index rows times the cost of the filter; bytes of rejected records."""
READ_BYTES_MAX: Final = 512 * 1024
"""Bytes of records per read."""
UNREADABLE_MS: Final = 30_000
"""Lease to nobody of a record that cannot be read; the messages behind it are delivered meanwhile."""
REPAIRED_MS: Final = 2_000
"""The same on a replica, where the others repair damaged records."""
FLOOR_SPAN_MAX: Final = 10_000
"""Largest distance of a free offset from the head; beyond it the message moves to the retry topic, and the floor advances."""
FLOOR_HELD_MS_MAX: Final = 600_000
"""Longest time since the first delivery of a free offset; after it the message moves to the retry topic."""
ATTEMPT_CHARS_MAX: Final = 128
"""Longest attempt id, in characters; a longer one is ignored."""
EVERYTHING: Final = 0
NEW: Final = 1
REDELIVERIES: Final = 2
"""The kinds of step: lease everything, only messages that were never leased, or only redeliveries."""
_ONE_STEP: Final = (EVERYTHING,)
_NEW_FIRST: Final = (NEW, REDELIVERIES)
_REDELIVERIES_FIRST: Final = (REDELIVERIES, NEW)


def steps(queue_id: int) -> tuple[int, ...]:
    """Steps of a call; each one visits all queues. `queue_id` is LeaseRequest.queue_id."""
    if not by_priority(queue_id):
        return _ONE_STEP
    return _REDELIVERIES_FIRST if again_first(queue_id) else _NEW_FIRST


class LeaseCall:
    """One lease call: the request, and the messages leased so far.

    limit, invisible_ms, wanted, fleeting   as in LeaseRequest
    attempt_id     attempt id of the client, "" without one; a call that repeats an id gets the messages of the earlier call
    pop_ms         pop time of all leases of the call, wall-clock ms
    remaining      estimate of the free messages that are left in the visited queues
    unfinished     True when the call has ended at SCAN_ROWS_MAX or SCAN_BYTES_MAX
    revive_queue   the revive queue id of receipts: ORDERED_REVIVE_QUEUE in ordered calls
    error          the last read error, None when all records were readable
    _rows          index rows scanned so far, times the cost of the filter
    _bytes         bytes of rejected records read so far
    _leased_bytes  bytes of the messages leased so far
    """

    __slots__ = (
        "_broker", "_bytes", "_index", "_leased_bytes", "_rows", "_source", "attempt_id", "error", "fleeting",
        "invisible_ms", "limit", "messages", "now", "pop_ms", "remaining", "revive_queue", "unfinished", "wanted",
    )  # fmt: skip

    def __init__(self, index: QueueIndex, source: LeaseSource, now: int, request: LeaseRequest) -> None:
        self._index = index
        self._source = source
        self.limit = request.limit
        self.now = now
        self.invisible_ms = request.terms.invisible_ms
        self.wanted = request.wanted
        self.revive_queue = 0
        self.fleeting = request.terms.fleeting
        attempt_id = request.terms.attempt_id
        legible = len(attempt_id) <= ATTEMPT_CHARS_MAX and "\n" not in attempt_id
        self.attempt_id = attempt_id if legible else ""
        self.messages: list[Leased] = []
        self.pop_ms = now
        self.remaining = 0
        self.unfinished = False
        self.error: OSError | StoreError | None = None
        self._rows = 0
        self._bytes = 0
        self._leased_bytes = 0
        self._broker = source.broker

    def raise_pop_ms(self, table: LeaseTable) -> None:
        """Raise the pop time above that of `table`. Call it before the first lease: later, the queue would be skipped."""
        if table.pop_ms >= self.pop_ms:
            self.pop_ms = table.pop_ms + 1

    def prepare(self, table: LeaseTable, queue: Queue) -> None:
        """Prepare one table for the steps NEW and REDELIVERIES; call it for all tables before the first step."""
        self.raise_pop_ms(table)
        table.expire(self.now)
        self.remaining += max(queue.visible - table.head + len(table.free_heap), 0)

    def lease_step(self, step: int, table: LeaseTable, queue: Queue) -> bool:
        """Run one of `steps` on one queue; True when the table has changed."""
        if step == EVERYTHING:
            return self.lease_from(table, queue)
        if step == NEW:
            before = table.head
            changed = self._lease_new(table, queue)
            self.remaining -= table.head - before
            return changed
        again = table.redeliverable(self.limit - len(self.messages))
        self.remaining -= len(again)
        return self._redeliver(table, queue, again, True, True)

    def lease_from(self, table: LeaseTable, queue: Queue) -> bool:
        """Lease from one queue; True when the table has changed."""
        table.expire(self.now)
        visible = queue.visible
        waiting = visible - table.head + len(table.free_heap)
        room = self.limit - len(self.messages)
        if waiting <= 0 or room == 0 or not self._choose_pop_ms(table):
            self.remaining += max(waiting, 0)
            return False
        before = table.head
        again = table.redeliverable(room)
        changed = self._redeliver(table, queue, again, True, True)
        changed = self._lease_new(table, queue) or changed
        self.remaining += max(waiting - len(again) - (table.head - before), 0)
        return changed

    def repeat(self, table: LeaseTable, queue: Queue) -> bool:
        """Lease again the messages that an earlier call of this attempt still holds in the queue; True when there was one.

        No delivery is counted, and the receipts of the earlier call expire. Messages whose lease has ended are redelivered as
        usual.
        """
        table.expire(self.now)
        mine = table.held_by(self.attempt_id)
        if not mine:
            return False
        self._redeliver(table, queue, mine, False, False)
        table.remember_attempt(self.attempt_id)
        return True

    def would_lease(self, table: LeaseTable, queue: Queue) -> bool:
        """True when `lease_from` would find a message, before filtering. Changes nothing."""
        if max(table.head, queue.first) < queue.visible:
            return True
        if self.attempt_id and table.held_by(self.attempt_id):
            return True
        return any(lease.free or lease.end_ms <= self.now for lease in table.leases.values())

    def _redeliver(self, table: LeaseTable, queue: Queue, offsets: list[int], attempt: bool, may_move: bool) -> bool:
        """Lease free `offsets` again; True when there were any.

        attempt    count a delivery, and apply the filter; without it the same client gets the same messages again
        may_move   move messages that block the floor to the retry topic
        """
        for offset in offsets:
            if self._leased_bytes >= limits.RECEIVE_BYTES_MAX:
                break
            if attempt and self.wanted is not None:
                if self._rows >= SCAN_ROWS_MAX:
                    self.unfinished = True
                    break
                self._rows += self.wanted.cost
            rows = self._index.rows(queue, offset, 1)
            records = self._readable(rows)
            if len(records) < len(rows):
                if not may_move:
                    break  # an ordered group: no message may overtake the unreadable one
                self._hide(table, offset)
                continue
            if not records or not (self._wants(records[0]) if attempt else records[0]):
                table.skip(offset)
                continue
            if may_move and self._blocks_floor(table, offset) and self._source.move_to_retry_topic(table, offset, records[0]):
                continue
            self._lease_again(table, queue, offset, records[0], attempt)
        return bool(offsets)

    def _blocks_floor(self, table: LeaseTable, offset: int) -> bool:
        """True when the free `offset` exceeds FLOOR_SPAN_MAX or FLOOR_HELD_MS_MAX and must move to the retry topic."""
        lease = table.leases[offset]
        if not lease.attempts:
            return False
        return table.head - offset > FLOOR_SPAN_MAX or self.now - lease.first_ms >= FLOOR_HELD_MS_MAX

    def _lease_again(self, table: LeaseTable, queue: Queue, offset: int, data: bytes, attempt: bool) -> None:
        """Lease `offset`, which was leased before, and set the reconsume times of the record."""
        # A withdrawn lease was not a delivery, so this one counts.
        counted = attempt or table.leases[offset].attempts == 0
        lease = table.lease(offset, self.pop_ms, self.pop_ms + self.invisible_ms, counted)
        lease.fleeting = self.fleeting
        if queue.lite:
            data = lite.seen_in(data, queue.entry.name, queue.lite)
        view = Record(data)
        times = view.reconsume_times + lease.attempts - 1
        if lease.attempts > 1:
            data = with_reconsume_times(data, times)
        self._add(data, queue.id, offset, view.physical_offset, times + 1)

    def _lease_new(self, table: LeaseTable, queue: Queue) -> bool:
        """Lease messages from the head on, and settle rejected ones without a delivery; True when the head has moved."""
        began = table.head
        while True:
            room = min(self.limit - len(self.messages), limits.LEASES_PER_QUEUE_MAX - len(table.leases))
            offset = table.head
            if room <= 0 or offset >= queue.visible:
                break
            if self._rows >= SCAN_ROWS_MAX or self._bytes >= SCAN_BYTES_MAX:
                self.unfinished = True
                break
            step = room
            if self.wanted is not None:
                step = max(1, min(max(room, 256), (SCAN_ROWS_MAX - self._rows) // self.wanted.cost))
            rows = self._index.rows(queue, offset, min(step, queue.visible - offset))
            if not rows:
                break
            if self.wanted is None:
                near = rows_within(rows, self._room_bytes)
                records = self._readable(near)
                for place, record in enumerate(records, offset):
                    if record:
                        self._lease_record(table, queue, place, record)
                    else:
                        table.skip(place)
                if len(records) < len(near):
                    self._hide(table, table.head)
                self._rows += len(near)
            else:
                self._lease_matching(table, queue, rows, room, self.wanted)
        return table.head != began

    def _lease_matching(self, table: LeaseTable, queue: Queue, rows: Sequence[Row], room: int, wanted: Filter) -> None:
        """Lease at most `room` of `rows` that match `wanted`, and skip the rows before and between them."""
        offset = table.head
        picked, last = self._rows_to_read(rows, room, wanted.hashes)
        records = self._readable([rows[at] for at in picked])
        if len(records) < len(picked):
            last = picked[len(records)]
        for at, record in zip(picked, records, strict=False):
            if room == 0 or len(self.messages) >= self.limit:
                last = at
                break
            table.skip_to(offset + at)
            if record and wanted.matches(Record(record).properties):
                room -= 1
                self._lease_record(table, queue, offset + at, record)
            else:
                self._bytes += len(record)
        self._rows += last * wanted.cost
        table.skip_to(offset + last)
        if len(records) < len(picked) and last == picked[len(records)]:
            self._hide(table, table.head)

    def _readable(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of `rows` up to the first unreadable one, which sets `error`."""
        found, error = readable(self._source.records, rows)
        if error is not None:
            self.error = error
        return found

    def _hide(self, table: LeaseTable, offset: int) -> None:
        """Lease the unreadable `offset`, which is free or `head`, to nobody, without a delivery."""
        fresh = offset == table.head
        lease = table.lease(offset, self.pop_ms, self.now + self._source.hidden_ms, False)
        if fresh:
            lease.attempts = 0

    def _lease_record(self, table: LeaseTable, queue: Queue, offset: int, record: bytes) -> None:
        table.lease(offset, self.pop_ms, self.pop_ms + self.invisible_ms).fleeting = self.fleeting
        if queue.lite:
            record = lite.seen_in(record, queue.entry.name, queue.lite)
        view = Record(record)
        self._add(record, queue.id, offset, view.physical_offset, view.reconsume_times + 1)

    def _rows_to_read(self, rows: Sequence[Row], room: int, hashes: frozenset[int] | None) -> tuple[Sequence[int], int]:
        """(indexes of the rows to read, number of rows that are then decided).

        A filter with tag `hashes` reads only rows with one of these hashes; any other filter reads the first READ_BYTES_MAX of
        records.
        """
        if hashes is None:
            count = len(rows_within(rows, READ_BYTES_MAX))
            return range(count), count
        picked = [at for at, row in enumerate(rows) if row[2] in hashes][:room]
        affordable = len(rows_within([rows[at] for at in picked], self._room_bytes))
        if affordable < len(picked):
            picked = picked[:affordable]
            return picked, picked[-1] + 1
        return picked, picked[-1] + 1 if len(picked) == room else len(rows)

    def _choose_pop_ms(self, table: LeaseTable) -> bool:
        """Raise the pop time above that of `table`; False when the call already has leases with a lower pop time."""
        if table.pop_ms >= self.pop_ms:
            if self.messages:
                return False
            self.pop_ms = table.pop_ms + 1
        return True

    def _wants(self, record: bytes) -> bool:
        """False for a rejected record and for a lost one (b"")."""
        return bool(record) if self.wanted is None or not record else self.wanted.matches(Record(record).properties)

    def _add(self, data: bytes, queue_id: int, offset: int, physical_offset: int, attempt: int) -> None:
        receipt = Receipt(
            offset, self.pop_ms, self.invisible_ms, self.revive_queue, 0, self._broker, queue_id, offset, physical_offset
        )
        self.messages.append(Leased(data, receipt, attempt))
        self._leased_bytes += len(data)
        if self._leased_bytes >= limits.RECEIVE_BYTES_MAX:
            self.limit = len(self.messages)

    @property
    def _room_bytes(self) -> int:
        return limits.RECEIVE_BYTES_MAX - self._leased_bytes
