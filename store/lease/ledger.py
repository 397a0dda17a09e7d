"""The lease ledger: leases, settlements and positions of all groups, journaled once a turn, expired by one timer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

from domain import lite
from domain.errors import ErrorCode, Failure
from domain.message import Placed
from domain.ports import Clock
from domain.priority import by_priority, lowest_first
from domain.receipt import ORDERED_REVIVE_QUEUE, Receipt
from domain.store_ports import LeaseResult, StateChange
from domain.store_request import LeaseRequest
from store.lease import journal
from store.lease.call import LeaseCall, RecordSource, steps
from store.lease.expiry import Expiry
from store.lease.order import OrderedCall
from store.lease.pull_progress import PullProgressTable
from store.lease.table import LeaseTable
from store.lease.turn import JournalWriter, TurnJournal
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.state.view import LEASE


class LedgerHost(RecordSource, JournalWriter, Protocol):
    """What the ledger needs of the store."""

    def broken(self) -> Failure | None:
        """Why the store takes no more writes; None while it does."""

    def start_of(self, queue: Queue, from_first: bool) -> int:
        """The offset at which a group without a position begins."""

    def freed(self, group: str, topic: str) -> None:
        """Messages of `topic` can be leased again by `group`."""


@final
class LeaseLedger(TurnJournal):
    """The ports `Leases` and `GroupPositions` over the lease tables.

    pull_progress   progress of members that pull from queues without receivers
    _round_robin    (group, topic) -> number of lease calls so far, which chooses the first queue of the next one
    _expiry         the timer of all leases
    """

    def __init__(self, index: QueueIndex, clock: Clock, host: LedgerHost, broker: str) -> None:
        super().__init__(index, host)
        self._clock = clock
        self._host = host
        self._broker = broker
        self.pull_progress = PullProgressTable()
        self._round_robin: dict[tuple[str, str], int] = {}
        self._expiry = Expiry(clock, host.freed)

    # Leasing

    def lease(self, request: LeaseRequest, done: Callable[[LeaseResult | Failure], None]) -> None:
        """Leases.lease."""
        failure = self._host.broken()
        if failure is not None:
            done(failure)
            return
        now = self._clock.wall_ms()
        if request.ordered:
            call: LeaseCall = OrderedCall(self._index, self._host, self._broker, now, request)
        else:
            call = LeaseCall(self._index, self._host, self._broker, now, request)
        wrote = False
        group, queue_id, from_first = request.group, request.queue_id, request.from_first
        queues = self._queues_to_lease_from(group, request.topic, queue_id)
        if by_priority(queue_id):
            for queue in queues:
                call.prepare(self.table(group, queue, from_first), queue)
        for step in steps(queue_id):
            for queue in queues:
                table = self.table(group, queue, from_first)
                table.last_receive_ms = now
                if not table.shared:
                    self._share(table, queue, now)
                if call.lease_step(step, table, queue):
                    wrote = True
                    self._mark_changed(table)
                    self._expiry.schedule(table)
        result = LeaseResult(call.messages, call.pop_ms, max(call.remaining, 0), call.unfinished)
        if wrote:
            self._when_written.append((done, result))
        else:
            done(result)

    def _queues_to_lease_from(self, group: str, topic: str, queue_id: int) -> list[Queue]:
        entry = self._index.topics.get(topic)
        if entry is None:
            return []
        if queue_id >= 0:
            queue = entry.queues.get(queue_id)
            return [] if queue is None else [queue]
        ids = sorted(entry.queues)
        if not ids:
            return []
        if by_priority(queue_id):
            return [entry.queues[queue] for queue in (ids if lowest_first(queue_id) else reversed(ids))]
        turn = self._round_robin.get((group, topic), 0)
        self._round_robin[group, topic] = turn + 1
        at = turn % len(ids)
        return [entry.queues[queue] for queue in ids[at:] + ids[:at]]

    def table(self, group: str, queue: Queue, from_first: bool) -> LeaseTable:
        """The table of a group on a queue, created when it does not exist, and cut to the offsets that the queue has."""
        key = (group, queue.name, queue.id)
        table = self.tables.get(key)
        self._index.refresh(queue)
        if table is None:
            progress = self.pull_progress.get(key)
            start = self._host.start_of(queue, from_first) if progress is None else progress.start
            table = self.tables[key] = LeaseTable(*key, start)
            self._mark_changed(table)
        if table.floor < queue.first:
            table.commit(queue.first)
            self._mark_changed(table)
        elif table.head > queue.next:
            table.commit(min(table.floor, queue.next))
            table.head = min(table.head, queue.next)
            self._mark_changed(table)
        return table

    # Settling

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """Leases.settle."""
        failure = self._host.broken()
        if failure is not None:
            done(failure)
            return
        outcomes: list[Failure | None] = []
        unblocked = False
        for receipt in receipts:
            table = self.tables.get((group, topic, receipt.queue_id))
            if table is None or receipt.queue_offset >= table.head:
                queue = None if table is None else self._index.queue(topic, receipt.queue_id)
                outcomes.append(_unleased(group, topic, receipt, queue))
                continue
            outcomes.append(table.settle(receipt.queue_offset, receipt.pop_ms))
            self._mark_changed(table)
            unblocked = unblocked or receipt.revive_queue == ORDERED_REVIVE_QUEUE
        self.when_durable(topic, done, outcomes)
        if unblocked:
            self._host.freed(group, topic)

    def extend(
        self,
        group: str,
        topic: str,
        receipts: Sequence[Receipt],
        invisible_ms: int,
        done: Callable[[list[Receipt | Failure] | Failure], None],
    ) -> None:
        """Leases.extend. A receipt of an ordered lease keeps its pop time (ConsumerOrderInfoManager)."""
        failure = self._host.broken()
        if failure is not None:
            done(failure)
            return
        now = self._clock.wall_ms()
        outcomes: list[Receipt | Failure] = []
        for receipt in receipts:
            offset = receipt.queue_offset
            table = self.tables.get((group, topic, receipt.queue_id))
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
            self._mark_changed(table)
            self._expiry.schedule(table)
            outcomes.append(
                Receipt(
                    offset,
                    pop_ms,
                    now + invisible_ms - pop_ms,
                    receipt.revive_queue,
                    receipt.retry,
                    self._broker,
                    receipt.queue_id,
                    offset,
                    receipt.physical_offset,
                )
            )
        self.when_durable(topic, done, outcomes)

    # Positions

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        """GroupPositions.offset."""
        floor = self.tables.floor((group, topic, queue_id))
        if floor < 0:
            done(Failure(ErrorCode.OFFSET_NOT_FOUND, f"group {group} has no position on {topic} queue {queue_id}"))
        else:
            done(floor)

    def commit(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """GroupPositions.commit."""
        failure = self._host.broken()
        if failure is not None:
            if done is not None:
                done(failure)
            return
        topic = ""
        for topic, queue_id, offset in offsets:
            key = (group, topic, queue_id)
            table = self.tables.get(key)
            if table is None:
                table = self.tables[key] = LeaseTable(group, topic, queue_id, max(offset, 0))
            else:
                table.commit(max(offset, 0))
            self._mark_changed(table)
        if done is not None:
            self.when_durable(topic, done, None)

    def reset(self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None]) -> None:
        """GroupPositions.reset."""
        for topic, queue_id, offset in offsets:
            key = (group, topic, queue_id)
            self.pull_progress.drop(key)
            table = self.tables.get(key)
            if table is not None and self.broken() is None:
                table.reset(max(offset, 0))
        self.commit(group, offsets, done)

    # Members that pull

    def _share(self, table: LeaseTable, queue: Queue, now: int) -> None:
        """Note that a receiver leases from the queue: what a member has pulled and not reported becomes its leases."""
        table.shared = True
        progress = self.pull_progress.drop((table.group, table.topic, table.queue_id))
        if progress is not None:
            progress.become_leases(table, queue.visible, now)
            self._mark_changed(table)
            self._expiry.schedule(table)

    def changed(self, table: LeaseTable, done: Callable[[Any], None] | None = None, result: object = None) -> None:
        """Journal `table`, which has changed, at the end of this turn; `done(result)` is called when that is written."""
        self._mark_changed(table)
        self._expiry.schedule(table)
        if done is not None:
            self._when_written.append((done, result))

    def broken(self) -> Failure | None:
        """Why the store takes no more writes; None while it does."""
        return self._host.broken()

    def drop_group(self, group: str, done: Callable[[None | Failure], None]) -> None:
        """GroupPositions.drop_group."""
        changes = self._drop([key for key in self.tables.places() if key[0] == group])

        def answer(result: list[Placed] | Failure) -> None:
            done(result if isinstance(result, Failure) else None)

        self._host.journaled(changes, None, answer)

    def drop_topic(self, topic: str) -> list[StateChange]:
        """Remove all tables of a topic, its lite queues included; the changes for the log."""
        lite_queues = lite.queue_name(topic, "")
        return self._drop([key for key in self.tables.places() if key[1] == topic or key[1].startswith(lite_queues)])

    def drop_places(self, keys: Sequence[tuple[str, str, int]]) -> list[StateChange]:
        """Remove the tables at `keys` that exist; the changes for the log."""
        return self._drop([key for key in keys if key in self.tables])

    def _drop(self, keys: list[tuple[str, str, int]]) -> list[StateChange]:
        changes: list[StateChange] = []
        for key in keys:
            table = self.tables.pop(key)
            self.pull_progress.drop(key)
            self._round_robin.pop((key[0], key[1]), None)
            if table is not None:
                self._dirty.pop(table, None)
                self.anchors.forget(table)
                table.dropped = True
            changes.append(StateChange(LEASE, journal.key(*key), None))
        return changes

    # Journal

    def apply(self, change: StateChange, base: int) -> None:
        """Apply a change that recovery has read from the log, or from a snapshot, in the segment at `base`."""
        key = journal.parse_key(change.key)
        if change.value is None:
            table = self.tables.pop(key)
            if table is not None:
                self.anchors.forget(table)
            return
        table = self.tables.live.get(key)
        if table is None:
            # An idle table has no offsets between floor and head, so this value holds all that has changed since.
            self.tables.pop(key)
            table = self.tables[key] = LeaseTable(*key, 0)
        journal.apply(table, change.value)
        if change.value[0] & journal.WHOLE_FLAG or journal.is_idle(table):
            self._anchor(table, base)

    def recovered(self) -> None:
        """Rebuild the heaps and start the timer, when recovery has applied all changes."""
        for table in self.tables.live.values():
            journal.recovered(table)
            self._expiry.schedule(table)

    def stop(self) -> None:
        """Stop the timer: the store is closed."""
        self._expiry.stop()

    @property
    def expired(self) -> int:
        """Leases that have ended without being settled, since the start."""
        return self._expiry.expired

    def leased(self) -> int:
        """Number of offsets between the floors and heads that are not settled: held leases and free ones."""
        return sum(len(table.leases) for table in self.tables.live.values())


def _unleased(group: str, topic: str, receipt: Receipt, queue: Queue | None) -> Failure:
    """The failure of a receipt at or above the head: RECEIPT_EXPIRED when its message exists, since the group was reset."""
    past = queue is not None and receipt.queue_offset < queue.visible
    text = f"group {group} has no lease on offset {receipt.queue_offset} of {topic} queue {receipt.queue_id}"
    return Failure(ErrorCode.RECEIPT_EXPIRED if past else ErrorCode.RECEIPT_INVALID, text)
