"""All lease tables of the store: leasing, settling, positions; journaled once a turn, expired by one timer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Final, Protocol, final

from domain import limits
from domain.errors import ErrorCode, Failure
from domain.event import Leased
from domain.filter.tag import TagFilter
from domain.message import Placed
from domain.ports import Clock, LeaseResult, StateChange, Timer
from domain.receipt import ORDERED_REVIVE_QUEUE, Receipt
from domain.record import Record, with_reconsume_times
from store.lease import journal
from store.lease.table import LeaseTable
from store.log.commit import Done
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row
from store.state.anchors import Anchors
from store.state.view import LEASE

SCAN_ROWS_MAX: Final = 4_096
_RECHECK_MS: Final = 1_000


class Host(Protocol):
    """What the ledger needs of the store."""

    def records(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of rows."""

    def journaled(self, changes: Sequence[StateChange], page: Done | None, flushed: Done | None) -> None:
        """Write changes that hold in memory; tell when the write is made, and when it is durable."""

    def wake(self) -> None:
        """See to it that the ledger's `journal` is called at the end of this turn."""

    def broken(self) -> Failure | None:
        """Why nothing can be written any more."""

    def start_of(self, queue: Queue, from_first: bool) -> int:
        """Where a group without a position begins."""

    def freed(self, group: str, topic: str) -> None:
        """Messages of `topic` can be leased again by `group`."""

    def move_on(self, table: LeaseTable, offset: int, record: bytes) -> None:
        """Copy a message that holds the floor too far back to the retry topic, and settle it in the same commit."""


@final
class Ledger:
    """Tables by (group, topic, queue id)."""

    def __init__(self, index: QueueIndex, clock: Clock, host: Host, broker: str) -> None:
        self._index = index
        self._clock = clock
        self._host = host
        self._broker = broker
        self.tables: dict[tuple[str, str, int], LeaseTable] = {}
        self.anchors: Anchors[LeaseTable] = Anchors()
        self._dirty: dict[LeaseTable, None] = {}
        self._page: list[tuple[Callable[[Any], None], Any]] = []
        self._flushed: list[tuple[Callable[[Any], None], Any]] = []
        self._turns: dict[tuple[str, str], int] = {}
        self._wakes: list[tuple[int, int, LeaseTable]] = []
        self._serial = 0
        self._timer: Timer | None = None
        self._timer_ms = 0
        self.expired = 0

    # Leasing

    def lease(
        self,
        group: str,
        topic: str,
        queue_id: int,
        limit: int,
        invisible_ms: int,
        tags: TagFilter | None,
        from_first: bool,
        ordered: bool,
        attempt_id: str,
        done: Callable[[LeaseResult | Failure], None],
    ) -> None:
        """MessageStore.lease."""
        failure = self._host.broken()
        if failure is not None:
            done(failure)
            return
        now = self._clock.wall_ms()
        call = _Call(limit, now, invisible_ms, tags, ordered, attempt_id, self._broker)
        wrote = False
        for queue in self._order(group, topic, queue_id):
            table = self._table(group, queue, from_first)
            wrote = self._lease(call, table, queue) or wrote
        result = LeaseResult(call.messages, call.pop_ms, max(call.rest, 0))
        if wrote:
            self._page.append((done, result))
        else:
            done(result)

    def _order(self, group: str, topic: str, queue_id: int) -> list[Queue]:
        entry = self._index.topics.get(topic)
        if entry is None:
            return []
        if queue_id >= 0:
            queue = entry.queues.get(queue_id)
            return [] if queue is None else [queue]
        ids = sorted(entry.queues)
        if not ids:
            return []
        turn = self._turns.get((group, topic), 0)
        self._turns[group, topic] = turn + 1
        at = turn % len(ids)
        return [entry.queues[queue] for queue in ids[at:] + ids[:at]]

    def _table(self, group: str, queue: Queue, from_first: bool) -> LeaseTable:
        key = (group, queue.entry.name, queue.id)
        table = self.tables.get(key)
        self._index.refresh(queue)
        if table is None:
            table = self.tables[key] = LeaseTable(*key, self._host.start_of(queue, from_first))
            self._touch(table)
        if table.floor < queue.first:
            table.commit(queue.first)
            self._touch(table)
        elif table.head > queue.next:
            table.commit(min(table.floor, queue.next))
            table.head = min(table.head, queue.next)
            self._touch(table)
        return table

    def _lease(self, call: _Call, table: LeaseTable, queue: Queue) -> bool:
        """Lease for `call` from one queue; True when the table has changed."""
        table.expire(call.now)
        visible = queue.visible
        waiting = visible - table.head + len(table.returned)
        room = call.limit - len(call.messages)
        if waiting <= 0 and not (call.ordered and table.leases) or room == 0 or not call.name(table):
            call.rest += max(waiting, 0)
            return False
        before = len(call.messages)
        attempt = True
        if call.ordered and table.leases and table.held(call.now):
            if not call.attempt_id or call.attempt_id != table.attempt_id:
                return False
            attempt = False
            again = sorted(table.leases)[:room]
        else:
            again = table.free(room)
        changed = self._again(call, table, queue, again, attempt)
        if attempt:
            changed = self._fresh(call, table, queue) or changed
            if call.ordered and changed:
                table.attempt_id = call.attempt_id
        if changed:
            self._touch(table)
            self._schedule(table)
        taken = len(call.messages) - before
        call.rest += max(waiting - taken, 0)
        return changed

    def _again(self, call: _Call, table: LeaseTable, queue: Queue, offsets: list[int], attempt: bool) -> bool:
        for offset in offsets:
            rows = self._index.rows(queue, offset, 1)
            records = self._host.records(rows)
            if not records or not call.wants(records[0]):
                table.pass_by(offset)
                continue
            if attempt and not call.ordered and table.overdue(offset, call.now):
                self._host.move_on(table, offset, records[0])
                continue
            lease = table.take(offset, call.pop_ms, call.pop_ms + call.invisible_ms, attempt)
            data = records[0]
            view = Record(data)
            times = view.reconsume_times + lease.attempts - 1
            if lease.attempts > 1:
                data = with_reconsume_times(data, times)
            call.add(data, queue.id, offset, view.physical_offset, times + 1)
        return bool(offsets)

    def _fresh(self, call: _Call, table: LeaseTable, queue: Queue) -> bool:
        """Lease from the head on."""
        tags = call.tags
        scanned = 0
        began = table.head
        while scanned < SCAN_ROWS_MAX:
            room = min(call.limit - len(call.messages), limits.LEASES_PER_QUEUE_MAX - len(table.leases))
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
            for place, record in zip(positions, self._host.records(wanted), strict=True):
                table.pass_to(place)
                if tags is not None and not call.wants(record):
                    continue
                table.take(place, call.pop_ms, call.pop_ms + call.invisible_ms)
                view = Record(record)
                call.add(record, queue.id, place, view.physical_offset, view.reconsume_times + 1)
            table.pass_to(offset + last)
        return table.head != began

    # Settling

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """MessageStore.settle."""
        failure = self._host.broken()
        if failure is not None:
            done(failure)
            return
        outcomes: list[Failure | None] = []
        unblocked = False
        for receipt in receipts:
            table = self.tables.get((group, topic, receipt.queue_id))
            if table is None or receipt.queue_offset >= table.head:
                text = f"group {group} has no lease on offset {receipt.queue_offset} of {topic} queue {receipt.queue_id}"
                outcomes.append(Failure(ErrorCode.RECEIPT_INVALID, text))
                continue
            outcomes.append(table.settle(receipt.queue_offset, receipt.pop_ms))
            self._touch(table)
            unblocked = unblocked or (receipt.revive_queue == ORDERED_REVIVE_QUEUE and not table.leases)
        self._when_durable(topic, done, outcomes)
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
        """MessageStore.extend. A receipt of an ordered lease keeps its pop time (ConsumerOrderInfoManager)."""
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
            pop_ms = receipt.pop_ms if ordered else table.next_pop(now)
            moved = table.extend(offset, receipt.pop_ms, pop_ms, now + invisible_ms)
            if moved is not None:
                outcomes.append(moved)
                continue
            self._touch(table)
            self._schedule(table)
            outcomes.append(
                Receipt(
                    offset, pop_ms, now + invisible_ms - pop_ms, receipt.revive_queue, receipt.retry, self._broker,
                    receipt.queue_id, offset, receipt.physical_offset,
                )  # fmt: skip
            )
        self._when_durable(topic, done, outcomes)

    # Positions

    def offset(self, group: str, topic: str, queue_id: int) -> int | Failure:
        """MessageStore.offset."""
        table = self.tables.get((group, topic, queue_id))
        if table is None:
            return Failure(ErrorCode.OFFSET_NOT_FOUND, f"group {group} has no position on {topic} queue {queue_id}")
        return table.floor

    def commit(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """MessageStore.commit."""
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
            self._touch(table)
        if done is not None:
            self._when_durable(topic, done, None)

    def drop_group(self, group: str, done: Callable[[None | Failure], None]) -> None:
        """MessageStore.drop_group."""
        changes = self._drop([key for key in self.tables if key[0] == group])

        def answer(result: list[Placed] | Failure) -> None:
            done(result if isinstance(result, Failure) else None)

        self._host.journaled(changes, None, answer)

    def drop_topic(self, topic: str) -> list[StateChange]:
        """Forget all tables of a topic; the changes that say so."""
        return self._drop([key for key in self.tables if key[1] == topic])

    def _drop(self, keys: list[tuple[str, str, int]]) -> list[StateChange]:
        changes: list[StateChange] = []
        for key in keys:
            table = self.tables.pop(key)
            self._dirty.pop(table, None)
            self.anchors.forget(table)
            self._turns.pop((key[0], key[1]), None)
            changes.append(StateChange(LEASE, journal.key(*key), None))
        return changes

    # Journal

    def apply(self, change: StateChange, base: int) -> None:
        """A change read from the log or from a snapshot, while the store opens."""
        key = journal.parse_key(change.key)
        if change.value is None:
            table = self.tables.pop(key, None)
            if table is not None:
                self.anchors.forget(table)
            return
        table = self.tables.get(key)
        if table is None:
            table = self.tables[key] = LeaseTable(*key, 0)
        journal.apply(table, change.value)
        if change.value[0] & journal.WHOLE or journal.is_idle(table):
            self.anchors.touch(table, base)

    def recovered(self) -> None:
        """All changes are applied: leases run on."""
        for table in self.tables.values():
            journal.ready(table)
            self._schedule(table)

    def journal(self, base: int) -> None:
        """The end of a turn: one record for all tables that have changed, and the answers that wait for it."""
        if not self._dirty and not self._page and not self._flushed:
            return
        changes: list[StateChange] = []
        for table in self._dirty:
            value, everything = journal.changes(table)
            changes.append(StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), value))
            if everything:
                self.anchors.touch(table, base)
        self._dirty.clear()
        page, self._page = self._page, []
        flushed, self._flushed = self._flushed, []
        self._host.journaled(changes, _answers(page) if page else None, _answers(flushed) if flushed else None)

    def change_of(self, table: LeaseTable) -> StateChange:
        """What has changed in `table`, to go into the log with something else; the turn's journal then leaves it out."""
        self._dirty.pop(table, None)
        value, _ = journal.changes(table)
        return StateChange(LEASE, journal.key(table.group, table.topic, table.queue_id), value)

    def anchored_below(self, base: int) -> list[LeaseTable]:
        """Tables that have to be written whole before the segments before `base` may go; marked for this turn's journal."""
        found = self.anchors.below(base)
        for table in found:
            table.reset_since = True
            self._touch(table)
        return found

    def _touch(self, table: LeaseTable) -> None:
        if table not in self._dirty:
            self._dirty[table] = None
            self._host.wake()

    def _when_durable(self, topic: str, done: Callable[[Any], None], result: object) -> None:
        entry = self._index.topics.get(topic)
        (self._flushed if entry is None or entry.flushed else self._page).append((done, result))
        self._host.wake()

    # Expiry

    def _schedule(self, table: LeaseTable) -> None:
        end = table.next_end()
        if end and (table.wake_ms == 0 or end < table.wake_ms):
            table.wake_ms = end
            self._serial += 1
            heappush(self._wakes, (end, self._serial, table))
            if self._timer is None or end < self._timer_ms:
                self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._wakes:
            self._timer_ms = self._wakes[0][0]
            wait = min(max(self._timer_ms - self._clock.wall_ms(), 0), _RECHECK_MS)
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait * 1_000_000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.wall_ms()
        freed: dict[tuple[str, str], None] = {}
        while self._wakes and self._wakes[0][0] <= now:
            end, _, table = heappop(self._wakes)
            if end != table.wake_ms or self.tables.get((table.group, table.topic, table.queue_id)) is not table:
                continue
            table.wake_ms = 0
            ended = table.expire(now)
            if ended:
                self.expired += len(ended)
                freed[table.group, table.topic] = None
            self._schedule(table)
        self._arm()
        for group, topic in freed:
            self._host.freed(group, topic)

    def stop(self) -> None:
        """The store is closed: leases end without anybody noticing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def leased(self) -> int:
        """Leases now, free ones included."""
        return sum(len(table.leases) for table in self.tables.values())


@final
class _Call:
    """One lease call while it goes from queue to queue."""

    __slots__ = (
        "_broker", "attempt_id", "invisible_ms", "limit", "messages", "now", "ordered", "pop_ms", "rest", "tags",
    )  # fmt: skip

    def __init__(
        self, limit: int, now: int, invisible_ms: int, tags: TagFilter | None, ordered: bool, attempt_id: str, broker: str
    ) -> None:
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

    def name(self, table: LeaseTable) -> bool:
        """Agree on a pop time with `table`; False when what is leased already carries one that it has used."""
        if table.pop_ms >= self.pop_ms:
            if self.messages:
                return False
            self.pop_ms = table.pop_ms + 1
        return True

    def wants(self, record: bytes) -> bool:
        return self.tags is None or self.tags.matches(Record(record).properties)

    def add(self, data: bytes, queue_id: int, offset: int, physical_offset: int, attempt: int) -> None:
        revive = ORDERED_REVIVE_QUEUE if self.ordered else 0
        receipt = Receipt(
            offset, self.pop_ms, self.invisible_ms, revive, 0, self._broker, queue_id, offset, physical_offset
        )
        self.messages.append(Leased(data, receipt, attempt))


def _answers(waiting: list[tuple[Callable[[Any], None], Any]]) -> Done:
    def answer(result: list[Placed] | Failure) -> None:
        for done, value in waiting:
            done(result if isinstance(result, Failure) else value)

    return answer
