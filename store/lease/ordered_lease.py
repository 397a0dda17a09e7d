"""Ordered leasing: a message is not delivered while another message of its ordering key is leased.

The ordering key is the message group (__SHARDINGKEY). Messages without one share the empty key, which also blocks the queue:
while one of them is leased, a call stops at the next one, as in RocketMQ's ordered queues (ConsumerOrderInfoManager).

    head -> is its key leased?  no: leased    yes: deferred, a free lease with no delivery, until its key is settled
"""

from __future__ import annotations

from typing import Final, final

from domain import limits
from domain.message import property as properties
from domain.message.receipt import ORDERED_REVIVE_QUEUE
from domain.message.record import Record
from domain.store.store_request import LeaseRequest
from store.lease.call import READ_BYTES_MAX, SCAN_BYTES_MAX, SCAN_ROWS_MAX, LeaseCall
from store.lease.lease_records import LeaseSource
from store.lease.table import LeaseTable
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import rows_within

DEFERRED_MAX: Final = 1_024
"""Limit on deferred messages of one queue; at the limit a call stops at the head."""
_STEP: Final = 64
"""Index rows per read."""
_KEY: Final = properties.SHARDING_KEY_START


@final
class OrderedLease(LeaseCall):
    """Lease call of an ordered group: from a queue where it holds messages, a repeated attempt gets only these."""

    __slots__ = ()

    def __init__(self, index: QueueIndex, source: LeaseSource, now: int, request: LeaseRequest) -> None:
        super().__init__(index, source, now, request)
        self.revive_queue = ORDERED_REVIVE_QUEUE

    def lease_from(self, table: LeaseTable, queue: Queue) -> bool:
        """Lease from one queue; True when the table has changed.

        `mine`: leases of the same attempt; `out`: keys that leases of other attempts block.
        """
        table.expire(self.now)
        table.ordered = True
        if not table.leases and table.head >= queue.visible:
            return False
        if len(self.messages) >= self.limit or not self._choose_pop_ms(table):
            self.remaining += max(queue.visible - table.head, 0)
            return False
        named_ms = table.attempt_pops.get(self.attempt_id, -1) if self.attempt_id else -1
        mine: list[int] = []
        free: list[int] = []
        out: set[bytes] = set()
        for offset in sorted(table.leases):
            lease = table.leases[offset]
            if lease.pop_ms == named_ms and not lease.pulled:
                mine.append(offset)
            elif lease.free:
                free.append(offset)
            else:
                out.add(self._key(table, queue, offset))
        room = self.limit - len(self.messages)
        mine = [offset for offset in mine if self._key(table, queue, offset) not in out][:room]
        if mine:
            changed = self._redeliver(table, queue, mine, False, False)
        else:
            ready = [offset for offset in free if self._key(table, queue, offset) not in out][:room]
            changed = self._redeliver(table, queue, ready, True, False)
            changed = self._lease_new_in_order(table, queue, out, len(free) - len(ready)) or changed
        if changed and self.attempt_id and table.pop_ms == self.pop_ms:
            table.remember_attempt(self.attempt_id)
        table.prune()
        self.remaining += max(queue.visible - table.head, 0)
        return changed

    def would_lease(self, table: LeaseTable, queue: Queue) -> bool:
        """True when `lease_from` would find a message with an unblocked key, or a lease of the same attempt.

        Changes only the cache of ordering keys.
        """
        named_ms = table.attempt_pops.get(self.attempt_id, -1) if self.attempt_id else -1
        out: set[bytes] = set()
        free: list[int] = []
        for offset, lease in table.leases.items():
            if lease.pop_ms == named_ms and not lease.pulled:
                return True
            if lease.free or lease.end_ms <= self.now:
                free.append(offset)
            else:
                out.add(self._key(table, queue, offset))
        if any(self._key(table, queue, offset) not in out for offset in free):
            return True
        ahead = range(max(table.head, queue.first), min(queue.visible, table.head + DEFERRED_MAX))
        for offset in ahead:
            key = self._key(table, queue, offset)
            if key not in out:
                return True
            if not key:
                return False
        return False

    def _lease_new_in_order(self, table: LeaseTable, queue: Queue, out: set[bytes], deferred: int) -> bool:
        """Lease from the head on; defers messages whose key is in `out`. `deferred`: number of messages already deferred."""
        began = table.head
        most = limits.LEASES_PER_QUEUE_MAX
        cost = 1 if self.wanted is None else self.wanted.cost
        while len(self.messages) < self.limit and table.head < queue.visible and len(table.leases) < most:
            if deferred >= DEFERRED_MAX or (b"" in out and table.keys.get(table.head) == b""):
                break
            if self._rows >= SCAN_ROWS_MAX or self._bytes >= SCAN_BYTES_MAX:
                self.unfinished = True
                break
            rows = self._index.rows(queue, table.head, min(_STEP, queue.visible - table.head))
            if not rows:
                break
            chosen = rows_within(rows, READ_BYTES_MAX)
            records = self._readable(chosen)
            for record in records:
                if len(self.messages) >= self.limit or deferred >= DEFERRED_MAX or self._rows >= SCAN_ROWS_MAX:
                    break
                self._rows += cost
                self._bytes += len(record)
                if not self._wants(record):
                    table.skip(table.head)
                    continue
                key = table.keys[table.head] = properties.find(Record(record).properties, _KEY)
                if key not in out:
                    self._lease_record(table, queue, table.head, record)
                elif key:
                    deferred += 1
                    table.defer()
                else:
                    break
            if len(records) < len(chosen):
                break  # no message may overtake the unreadable one
        return table.head != began

    def _key(self, table: LeaseTable, queue: Queue, offset: int) -> bytes:
        """Ordering key of a leased offset, read from the log if it is not cached (after a restart)."""
        key = table.keys.get(offset)
        if key is None:
            records = self._source.records(self._index.rows(queue, offset, 1))
            key = table.keys[offset] = properties.find(Record(records[0]).properties, _KEY) if records and records[0] else b""
        return key
