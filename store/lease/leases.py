"""Leasing, settling and extending: the port `Leases` over the lease tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import final

from domain.delivery.priority import by_priority, lowest_first
from domain.errors import ErrorCode, Failure, StoreError
from domain.message.receipt import ORDERED_REVIVE_QUEUE, Receipt
from domain.ports import Clock
from domain.store.store_ports import LeaseResult
from domain.store.store_request import LeaseRequest
from store.events import StoreEvents
from store.lease.call import EVERYTHING, LeaseCall, steps
from store.lease.candidates import Candidates
from store.lease.journaled_tables import JournaledTables
from store.lease.lease_records import LeaseSource
from store.lease.ordered_lease import OrderedLease
from store.lease.table import LeaseTable
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.reads.repair_waits import unreadable
from store.reads.startup_queue import StartupQueue


@final
class StoredLeases:
    """`domain.store.store_ports.Leases`. Construct it after recovery, when all fleeting leases are of the previous process.

    _previous   (table, offset, pop time) of the fleeting leases of the previous process
    """

    def __init__(
        self,
        ledger: JournaledTables,
        index: QueueIndex,
        source: LeaseSource,
        held: StartupQueue,
        clock: Clock,
        events: StoreEvents,
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._source = source
        self._held = held
        self._clock = clock
        self._events = events
        self._previous: list[tuple[LeaseTable, int, int]] = []
        for table in ledger.tables.live.values():
            self._previous += [(table, at, lease.pop_ms) for at, lease in table.leases.items() if lease.fleeting]

    def lease(self, request: LeaseRequest, done: Callable[[LeaseResult | Failure], None]) -> None:
        """Leases.lease."""
        if self._held.holding:
            self._held.add(self.lease, request, done)
            return
        ledger = self._ledger
        if ledger.refuses(done):
            return
        now = self._clock.wall_ms()
        if request.terms.ordered:
            call: LeaseCall = OrderedLease(self._index, self._source, now, request)
        else:
            call = LeaseCall(self._index, self._source, now, request)
        if call.attempt_id and not request.terms.ordered and self._repeat(call, request):
            self._answer(call, request, True, done)
            return
        entry = self._index.topics.get(request.topic)
        candidates = ledger.candidates.of(request.group, entry) if entry is not None and request.queue_id == -1 else None
        if candidates is not None:
            self._answer(call, request, self._lease_from_candidates(call, candidates, request), done)
            return
        queues = self._queues_to_lease_from(request.group, request.topic, request.queue_id) if request.limit > 0 else []
        if by_priority(request.queue_id):
            for queue in queues:
                try:
                    call.prepare(ledger.table(request.group, queue, request.from_first), queue)
                except (OSError, StoreError) as error:
                    call.error = error
        wrote = False
        for step in steps(request.queue_id):
            for queue in queues:
                wrote = self._lease_from(call, step, queue, request) or wrote
        self._answer(call, request, wrote, done)

    def _lease_from_candidates(self, call: LeaseCall, candidates: Candidates, request: LeaseRequest) -> bool:
        """Lease from the candidates of a topic in turn; True when a table has changed."""
        wrote = False
        before, most = len(candidates), candidates.visits_max
        visits = 0
        while visits < most and len(call.messages) < request.limit:
            visits += 1
            queue_id = candidates.take()
            queue = candidates.entry.queues.get(queue_id)
            if queue is None:
                continue
            had = len(call.messages)
            wrote = self._lease_from(call, EVERYTHING, queue, request) or wrote
            candidates.visited(queue_id, self._has_more(call, queue, request, len(call.messages) > had))
        call.unfinished = call.unfinished or (visits == most < before and len(call.messages) < request.limit)
        call.remaining += before - visits
        return wrote

    def _has_more(self, call: LeaseCall, queue: Queue, request: LeaseRequest, found: bool) -> bool:
        """True when a further call may find a message in the queue that `call` has visited."""
        table = self._ledger.tables.awake((request.group, queue.name, queue.id))
        if call.error is not None:
            return True
        if table is None or (table.head >= queue.visible and not table.free_heap):
            return False
        # An ordered call leaves only messages that are blocked until the table changes, unless it ended early.
        return found or not request.terms.ordered or call.unfinished or table.pop_ms >= call.pop_ms

    def _lease_from(self, call: LeaseCall, step: int, queue: Queue, request: LeaseRequest) -> bool:
        """Run one step of a call on one queue; True when its table has changed."""
        ledger = self._ledger
        if ledger.tables.is_idle_at((request.group, queue.name, queue.id), queue.visible):
            return False
        try:
            table = ledger.table(request.group, queue, request.from_first)
        except (OSError, StoreError) as error:
            call.error = error
            return False
        table.last_receive_ms = call.now
        if not table.shared:
            ledger.share(table, queue, call.now)
        had = len(call.messages)
        try:
            changed = call.lease_step(step, table, queue)
        except (OSError, StoreError) as error:
            call.error = error
            changed = True  # the answer has the leases before the error
        if changed:
            if call.attempt_id and not request.terms.ordered and len(call.messages) > had:
                table.remember_attempt(call.attempt_id)
                ledger.attempts.add(table, call.attempt_id)
            ledger.changed(table)
        return changed

    def _answer(
        self, call: LeaseCall, request: LeaseRequest, wrote: bool, done: Callable[[LeaseResult | Failure], None]
    ) -> None:
        """Answer a call; if it `wrote`, after its journal is written."""
        result: LeaseResult | Failure = LeaseResult(call.messages, call.pop_ms, max(call.remaining, 0), call.unfinished)
        if call.error is not None:
            self._events.unreadable(call.error)
            if not call.messages:
                failure = unreadable(call.error, f"{request.topic} holds a message that cannot be read: {call.error}")
                if self._held.repairs.hold(failure, done, partial(self.lease, request, done)):
                    return
                result = failure
        if wrote:
            self._ledger.when_written(done, result)
        else:
            done(result)

    def _repeat(self, call: LeaseCall, request: LeaseRequest) -> bool:
        """Lease again all messages that an earlier call of this attempt still holds; False when it holds none."""
        ledger, topic = self._ledger, request.topic
        changed = False
        pairs: list[tuple[LeaseTable, Queue]] = []
        for queue_id in ledger.attempts.queues(request.group, topic, call.attempt_id):
            if request.queue_id < 0 or request.queue_id == queue_id:
                try:
                    queue = self._index.queue(topic, queue_id)
                    if queue is not None:
                        table = ledger.table(request.group, queue, request.from_first)
                        call.raise_pop_ms(table)
                        pairs.append((table, queue))
                except (OSError, StoreError) as error:
                    call.error = error
        for table, queue in pairs:
            if call.repeat(table, queue):
                changed = True
                ledger.changed(table)
        return changed

    def _queues_to_lease_from(self, group: str, topic: str, queue_id: int) -> list[Queue]:
        """Queues of a call in the order of the visits; `queue_id` is LeaseRequest.queue_id."""
        entry = self._index.topics.get(topic)
        if entry is None:
            return []
        if queue_id >= 0:
            queue = entry.queues.get(queue_id)
            return [] if queue is None else [queue]
        ids = sorted(entry.queues)
        if not ids:
            return []
        if len(ids) == 1:
            return [entry.queues[ids[0]]]
        if by_priority(queue_id):
            return [entry.queues[queue] for queue in (ids if lowest_first(queue_id) else reversed(ids))]
        at = self._ledger.next_round(group, topic) % len(ids)
        return [entry.queues[queue] for queue in ids[at:] + ids[:at]]

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """Leases.settle."""
        if self._ledger.refuses(done):
            return
        outcomes: list[Failure | None] = []
        unblocked = False
        for receipt in receipts:
            table = self._ledger.tables.get((group, topic, receipt.queue_id))
            if table is None or receipt.queue_offset >= table.head:
                queue = None if table is None else self._index.queue(topic, receipt.queue_id)
                outcomes.append(_unleased(group, topic, receipt, queue))
                continue
            outcomes.append(table.settle(receipt.queue_offset, receipt.pop_ms))
            self._ledger.mark_changed(table)
            unblocked = unblocked or receipt.revive_queue == ORDERED_REVIVE_QUEUE
        self._ledger.when_durable(group, (topic,), done, outcomes)
        if unblocked:
            self._ledger.freed(group, topic)

    def extend(
        self,
        group: str,
        topic: str,
        receipts: Sequence[Receipt],
        invisible_ms: int,
        done: Callable[[list[Receipt | Failure] | Failure], None],
    ) -> None:
        """Leases.extend. A receipt of an ordered lease keeps its pop time (ConsumerOrderInfoManager)."""
        if self._ledger.refuses(done):
            return
        now = self._clock.wall_ms()
        outcomes: list[Receipt | Failure] = []
        for receipt in receipts:
            offset = receipt.queue_offset
            table = self._ledger.tables.get((group, topic, receipt.queue_id))
            if table is None:
                text = f"group {group} has no lease on offset {offset} of {topic} queue {receipt.queue_id}"
                outcomes.append(Failure(ErrorCode.RECEIPT_INVALID, text))
                continue
            ordered = receipt.revive_queue == ORDERED_REVIVE_QUEUE
            pop_ms = receipt.pop_ms if ordered else table.next_pop_ms(now)
            moved = table.extend(offset, receipt.pop_ms, pop_ms, now + invisible_ms)
            if moved is not None:
                outcomes.append(moved)
                continue
            self._ledger.changed(table)
            outcomes.append(
                Receipt(
                    offset,
                    pop_ms,
                    now + invisible_ms - pop_ms,
                    receipt.revive_queue,
                    receipt.retry,
                    self._source.broker,
                    receipt.queue_id,
                    offset,
                    receipt.physical_offset,
                )
            )
        self._ledger.when_durable(group, (topic,), done, outcomes)

    def withdraw(self, group: str, topic: str, receipts: Sequence[Receipt], wake: bool = False) -> None:
        """Leases.withdraw. No caller waits for the journal: if it is lost, the leases end at their `end_ms`."""
        if self._ledger.broken() is not None:
            return
        now = self._clock.wall_ms()
        for receipt in receipts:
            table = self._ledger.tables.get((group, topic, receipt.queue_id))
            lease = None if table is None else table.release(receipt.queue_offset, receipt.pop_ms, now)
            if table is not None and lease is not None:
                lease.attempts -= 1
                self._ledger.changed(table)
        if wake:
            self._ledger.freed(group, topic)

    def lapse(self) -> None:
        """Leases.lapse. Journals nothing: after a crash the next start finds the same leases and releases them again."""
        if self._held.holding:
            self._held.add(self.lapse)
            return
        previous, self._previous = self._previous, []
        now = self._clock.wall_ms()
        places: dict[tuple[str, str], None] = {}
        for table, offset, pop_ms in previous:
            if not table.dropped and table.release(offset, pop_ms, now) is not None:
                places[table.group, table.topic] = None
                self._ledger.candidates.changed(table)
        for group, topic in places:
            self._ledger.freed(group, topic)


def _unleased(group: str, topic: str, receipt: Receipt, queue: Queue | None) -> Failure:
    """Failure for a receipt at or above the head: RECEIPT_EXPIRED when the message exists (the group was reset), else
    RECEIPT_INVALID."""
    past = queue is not None and receipt.queue_offset < queue.visible
    text = f"group {group} has no lease on offset {receipt.queue_offset} of {topic} queue {receipt.queue_id}"
    return Failure(ErrorCode.RECEIPT_EXPIRED if past else ErrorCode.RECEIPT_INVALID, text)
