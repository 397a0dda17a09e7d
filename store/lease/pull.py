"""One pull of a queue with receivers: it leases the messages that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain import limits
from domain.errors import StoreError
from domain.message.record import Record, with_reconsume_times
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from domain.topic import lite
from store.lease import returned_messages
from store.lease.lease_records import LeaseSource
from store.lease.pull_progress import PULL_LEASE_MS
from store.lease.table import LeaseTable
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row, rows_within
from store.reads.reading import READ_BYTES_MAX, readable

_STEP: Final = 64


@final
class PullCall:
    """One pull: the request, and the records leased so far.

    changed    True when the table has to be journaled
    error      the last read error, None when all records were readable
    _pop_ms    pop time of the leases, wall-clock ms
    _size      bytes of `_records`, the records of the answer
    """

    __slots__ = (
        "_index", "_limit", "_max_bytes", "_now", "_pop_ms", "_queue", "_records", "_size", "_source", "_table", "_wanted",
        "changed", "error",
    )  # fmt: skip

    def __init__(
        self,
        index: QueueIndex,
        source: LeaseSource,
        table: LeaseTable,
        queue: Queue,
        now: int,
        request: ReadRequest,
    ) -> None:
        self._index = index
        self._source = source
        self._table = table
        self._queue = queue
        self._now = now
        self._limit = request.limit
        self._max_bytes = request.max_bytes
        self._wanted = request.wanted
        self._pop_ms = table.next_pop_ms(now)
        self._records: list[bytes] = []
        self._size = 0
        self.changed = False
        self.error: OSError | StoreError | None = None

    def run(self, offset: int, backward: bool) -> ReadResult:
        """Lease messages from `offset` on that no other member holds; `pop_ms` of the result is 0 without leases.

        Raises StoreError and OSError when the first message cannot be read; the answer ends before a later unreadable one.
        With `backward`, late returns come first, in a separate answer (returned_messages.py).
        """
        table, queue = self._table, self._queue
        first, end = queue.first, queue.visible
        table.expire(self._now)
        if offset < first:
            return ReadResult("TOO_SMALL", [], first, first, end)
        if offset > end:
            return ReadResult("TOO_LARGE", [], end, first, end)
        at = max(offset, table.floor)
        if at - table.head + len(table.leases) > limits.LEASES_PER_QUEUE_MAX:
            return ReadResult("TOO_LARGE", [], table.head, first, end)
        if table.ordered and any(not (lease.free or lease.pulled) for lease in table.leases.values()):
            return ReadResult("EMPTY", [], offset, first, end)
        while table.head < at:
            # The member read the offset before receivers joined, or skips it: its next report settles it.
            self._hold(table.head, True)
        if backward:
            self._deliver_late_returns(offset)
            if self._records:
                return ReadResult("FOUND", self._records, offset, first, end, self._pop_ms)
        next_offset = self._redeliver(at)
        if next_offset < 0:
            next_offset = self._deliver_new(at)
        blocked = next_offset < end and not self._records and len(table.leases) >= limits.LEASES_PER_QUEUE_MAX
        if self._records:
            return ReadResult("FOUND", self._records, next_offset, first, end, self._pop_ms)
        return ReadResult("EMPTY" if blocked or next_offset == offset else "NO_MATCH", [], next_offset, first, end)

    def _deliver_late_returns(self, offset: int) -> None:
        """Lease late returns before `offset`, with a separate pop time."""
        table = self._table
        late = returned_messages.find(table, offset, self._limit)
        if not late:
            return
        self._pop_ms = table.next_pop_ms(self._now)
        taken: list[int] = []
        for at in late:
            try:
                record = self._record_or_skip(at)
            except (OSError, StoreError) as error:
                self.error = error
                continue
            if record is None:
                continue
            if not self._add(record, at, True):
                break
            taken.append(at)
        if taken:
            returned_messages.record_leased(table, taken)

    def _redeliver(self, at: int) -> int:
        """Lease offsets from `at` to the head that are free or the puller's; the next offset if the answer is full, else -1."""
        table = self._table
        if at >= table.head:
            return -1
        for offset in sorted([each for each, lease in table.leases.items() if each >= at and (lease.free or lease.pulled)]):
            if len(self._records) >= self._limit:
                return offset
            try:
                record = self._record_or_skip(offset)
            except (OSError, StoreError) as error:
                self.error = error
                if not self._records:
                    raise
                return offset
            if record is not None and not self._add(record, offset, not table.leases[offset].pulled):
                return offset
        return -1

    def _record_or_skip(self, offset: int) -> bytes | None:
        """Record at an offset that was leased before; None if it is deleted or rejected, and then settles the offset."""
        found = self._source.records(self._index.rows(self._queue, offset, 1))
        if found and self._wants(found[0]):
            return found[0]
        self._skip(offset)
        return None

    def _deliver_new(self, at: int) -> int:
        """Lease messages from the head on; returns the next offset."""
        table, queue = self._table, self._queue
        began = table.head
        cost = 1 if self._wanted is None else self._wanted.cost
        while (
            len(self._records) < self._limit and table.head < queue.visible
            and (table.head - began) * cost < limits.LEASES_PER_QUEUE_MAX
        ):  # fmt: skip
            if len(table.leases) >= limits.LEASES_PER_QUEUE_MAX:
                break
            rows = self._index.rows(queue, table.head, min(_STEP, queue.visible - table.head))
            if not rows:
                break
            chosen = rows_within(rows, READ_BYTES_MAX)
            records = self._readable(chosen)
            for record in records:
                if len(self._records) >= self._limit or (table.head - began) * cost >= limits.LEASES_PER_QUEUE_MAX:
                    break
                if not self._wants(record):
                    self._skip(table.head)
                elif not self._add(record, table.head, True):
                    return table.head
            if len(records) < len(chosen):
                break  # the next pull begins at the unreadable message and gets the error
        return max(table.head, at)

    def _readable(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of `rows` up to the first unreadable one; raises its error when the answer would be empty."""
        found, error = readable(self._source.records, rows)
        if error is not None:
            self.error = error
            if not found and not self._records:
                raise error
        return found

    def _wants(self, record: bytes) -> bool:
        """False for a rejected record and for a lost one (b"")."""
        return bool(record) if self._wanted is None or not record else self._wanted.matches(Record(record).properties)

    def _skip(self, offset: int) -> None:
        self._table.skip(offset)
        self.changed = True

    def _add(self, record: bytes, offset: int, attempt: bool) -> bool:
        """Lease one message and add its record to the answer; False when the record would exceed the bytes of the answer."""
        if self._records and self._size + len(record) > self._max_bytes:
            return False
        attempts = self._hold(offset, attempt)
        if attempts > 1:
            record = with_reconsume_times(record, Record(record).reconsume_times + attempts - 1)
        if self._queue.lite:
            record = lite.seen_in(record, self._queue.entry.name, self._queue.lite)
        self._size += len(record)
        self._records.append(record)
        return True

    def _hold(self, offset: int, attempt: bool) -> int:
        lease = self._table.lease(offset, self._pop_ms, self._now + PULL_LEASE_MS, attempt)
        lease.pulled = True
        self.changed = True
        return lease.attempts
