"""Open transactions: the undecided ones, the times of their checks, and the storing of decisions. All derived from the log.

An open transaction is one key of the state space `@half`: the offset of its half message in the half queue. One commit writes
the message and the key. Another one removes the key and, when the decision is to commit, writes the real message; so a
transaction is decided once, wherever a crash cuts the log. Memory holds what has been accepted, durable or not, since the log
keeps the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.limits import TRANSACTIONS_OPEN_MAX
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.ports import Clock, Timer
from domain.store.store_ports import StateChange
from domain.transaction import TransactionCheckPolicy, TransactionListener
from store.appends.writer import StoreWriter
from store.delay.accompaniment import Accompaniment
from store.log.reader import RecordReader
from store.queue.index import QueueIndex
from store.queue.row import Row
from store.state.view import HALF, StateView
from store.transaction import half
from store.transaction.checks_without_producer import ChecksWithoutProducer
from store.transaction.half import Half

BATCH_HALVES: Final = 256
BATCH_BYTES: Final = 1024 * 1024
"""Half messages and bytes of one round of checks, or of one step of copying forward."""
ENDED_MAX: Final = 65_536
"""Decided transactions whose outcome is remembered; the oldest is forgotten first."""
_RECHECK_MS: Final = 1_000
"""The timer sleeps at most this long: the wall clock may jump."""
_HEAP_SLACK: Final = 1_024
"""Outdated heap entries that are kept, besides as many as there are valid ones, before the heap is rebuilt."""


@final
class OpenTransactions:
    """The `Transactions` port, and the copies that retention needs.

    check_policy  times and number of the checks of a transaction
    checked       checks sent since the start
    ended         transactions decided since the start
    _open         offset in the half queue -> open transaction, ascending
    _by_name      (producer group, transaction id) -> offset
    _outcomes     (producer group, transaction id) -> outcome of decided transactions, oldest first
    _heap         (next_ms, offset); an entry is outdated unless its time is that of the open transaction
    _unanswered   checks that found no producer
    """

    def __init__(
        self,
        index: QueueIndex,
        clock: Clock,
        reader: RecordReader,
        state: StateView,
        writer: StoreWriter,
        check_policy: TransactionCheckPolicy,
        accompaniment: Accompaniment,
    ) -> None:
        self.check_policy = check_policy
        self._accompaniment = accompaniment
        self._index = index
        self._clock = clock
        self._reader = reader
        self._state = state
        self._writer = writer
        self._listeners: list[TransactionListener] = []
        self._open: dict[int, Half] = {}
        self._by_name: dict[tuple[str, str], int] = {}
        self._outcomes: dict[tuple[str, str], str] = {}
        self._heap: list[tuple[int, int]] = []
        self._unanswered = ChecksWithoutProducer(clock, self._repeat_checks)
        self._timer: Timer | None = None
        self._stopped = False
        self.checked = self.ended = 0

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> None:
        """Load the open transactions, after recovery. Checks sent before count as unanswered: their answer may be lost."""
        for key, value in self._state.scan(HALF, b""):
            opened, offset = half.decode(value), int.from_bytes(key, "big")
            if self._is_lost(offset):
                continue
            self._add(offset, opened)
            if opened.checks:
                self._unanswered.add(opened.group, opened.message_id)
        self._arm()

    def stop(self) -> None:
        """Stop checking: the store is closed."""
        self._stopped = True
        self._unanswered.stop()
        if self._timer is not None:
            self._timer.cancel()

    def listen(self, listener: TransactionListener) -> None:
        """Transactions.listen."""
        self._listeners.append(listener)

    def present(self, group: str) -> None:
        """Transactions.present."""
        self._unanswered.present(group)

    def begin(self, messages: Sequence[Message]) -> list[StateChange] | Failure:
        """Open transactions for half messages (`half.prepared`); returns the changes for the commit that appends them.

        The caller appends the messages at once and in this order. A message whose id is open already replaces the earlier one:
        its producer has sent it again. OVERLOADED above TRANSACTIONS_OPEN_MAX.
        """
        if len(self._open) + len(messages) > TRANSACTIONS_OPEN_MAX:
            return Failure(ErrorCode.OVERLOADED, f"{len(self._open)} transactions are open: decide over some of them first")
        offset = self._writer.half_queue().next
        changes: list[StateChange] = []
        now_ms = self._clock.wall_ms()
        for message in messages:
            opened = half.opened(message, now_ms, self.check_policy.timeout_ms)
            before = self._by_name.get((opened.group, opened.message_id))
            if before is not None:
                changes.append(self._remove(before))
                self._unanswered.forget(opened.group, opened.message_id)
            self._outcomes.pop((opened.group, opened.message_id), None)
            self._add(offset, opened)
            changes.append(StateChange(HALF, _key(offset), opened.encode()))
            offset += 1
        self._arm()
        return changes

    def _add(self, offset: int, opened: Half) -> None:
        self._open[offset] = opened
        self._by_name[(opened.group, opened.message_id)] = offset
        heappush(self._heap, (opened.next_ms, offset))

    def _remove(self, offset: int) -> StateChange:
        """Remove an open transaction; the change for the log."""
        opened = self._open.pop(offset)
        name = (opened.group, opened.message_id)
        if self._by_name.get(name) == offset:
            del self._by_name[name]
        if len(self._heap) > 2 * len(self._open) + _HEAP_SLACK:
            self._heap = [(known.next_ms, at) for at, known in self._open.items()]
            heapify(self._heap)
        return StateChange(HALF, _key(offset), None)

    def _end(self, offset: int, outcome: str) -> StateChange:
        opened = self._open[offset]
        if len(self._outcomes) >= ENDED_MAX:
            del self._outcomes[next(iter(self._outcomes))]
        self._outcomes[(opened.group, opened.message_id)] = outcome
        self._unanswered.forget(opened.group, opened.message_id)
        self.ended += 1
        return self._remove(offset)

    # Decisions

    def end(
        self,
        group: str,
        message_id: str,
        offset: int,
        position: int,
        commit: bool,
        done: Callable[[None | Failure], None] | None,
    ) -> None:
        """Transactions.end."""

        def answer(result: list[Placed] | Failure | None) -> None:
            if done is not None:
                done(result if isinstance(result, Failure) else None)

        failure = self._writer.refusal()
        if failure is not None:
            answer(failure)
            return
        wanted = "committed" if commit else "rolled back"
        at = self._find(group, message_id, offset)
        if at < 0:
            ended = self._outcomes.get((group, message_id), wanted if 0 <= offset < self._writer.half_queue().next else "")
            if ended == wanted:
                self._writer.put((), (), answer)  # the decision may still be on its way to the disk
            else:
                text = f"it was {ended} before" if ended else "it is unknown here, or was decided over long ago"
                answer(Failure(ErrorCode.MESSAGE_NOT_FOUND, f"transaction {message_id} is not open: {text}"))
            return
        if self._open[at].group != group:
            answer(Failure(ErrorCode.NOT_ALLOWED, f"the half message at {at} was not sent by producer group {group}"))
            return
        try:
            row = self._row(at)
            if row is None or (at == offset and position not in (-1, row[0])):
                answer(Failure(ErrorCode.MESSAGE_NOT_FOUND, f"no half message of offset {offset} is stored at {position}"))
                return
            messages = [half.committed(data) for data in self._reader.fetch([row])] if commit else []
        except (OSError, StoreError) as error:
            answer(Failure(ErrorCode.INTERNAL, f"the half message at {at} cannot be read: {error}"))
            return
        if messages and not self._index.has_topic(messages[0].topic):
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {messages[0].topic} is no more: the message was dropped")
            self._writer.put((), (self._end(at, "rolled back"),), lambda result: answer(failure))
            return
        accompanied = [change for message in messages for change in self._accompaniment.changes_of(message)]
        self._writer.put(messages, (*accompanied, self._end(at, wanted)), answer)

    def topic(self, group: str, message_id: str, offset: int, done: Callable[[str | Failure], None]) -> None:
        """Transactions.topic."""
        at = self._find(group, message_id, offset)
        try:
            row = self._row(at) if at >= 0 else None
            data = b"" if row is None else self._reader.fetch([row])[0]
        except (OSError, StoreError) as error:
            done(Failure(ErrorCode.INTERNAL, f"the half message cannot be read: {error}"))
            return
        done(half.destination_of(Record(data))[0] if data else "")

    def _find(self, group: str, message_id: str, offset: int) -> int:
        """The offset of the open half message that a decision refers to, -1 when it is not open."""
        return offset if offset in self._open else self._by_name.get((group, message_id), -1)

    def _row(self, offset: int) -> Row | None:
        """The index row of a half message; None when it is not readable, or was lost."""
        queue = self._writer.half_queue()
        self._index.refresh(queue)
        rows = self._index.rows(queue, offset, 1) if queue.first <= offset < queue.visible else []
        return rows[0] if rows and not self._reader.is_lost(rows[0]) else None

    def _is_lost(self, offset: int) -> bool:
        """True when the half message at `offset` was lost in a gap of the log."""
        queue = self._writer.half_queue()
        rows = self._index.rows(queue, offset, 1) if queue.first <= offset < queue.visible else []
        return bool(rows) and self._reader.is_lost(rows[0])

    # Checks

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and not self._stopped:
            wait = min(max(self._heap[0][0] - self._clock.wall_ms(), 1), _RECHECK_MS)
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait * 1_000_000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._writer.refusal() is None:
            self._check_due(self._clock.wall_ms())
        self._arm()

    def _due(self, now_ms: int) -> list[tuple[int, Row]]:
        due: list[tuple[int, Row]] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < BATCH_HALVES:
            next_ms, offset = heappop(self._heap)
            opened = self._open.get(offset)
            if opened is None or opened.next_ms != next_ms:
                continue
            opened.next_ms = now_ms + self.check_policy.interval_ms
            heappush(self._heap, (opened.next_ms, offset))
            row = self._row(offset)
            if row is not None:
                due.append((offset, row))
        return due

    def _readable(self, rows: Sequence[tuple[int, Row]]) -> list[tuple[int, bytes]]:
        """(offset, record) of the half messages that can be read: one that is damaged holds back no other."""
        try:
            records = self._reader.fetch([row for _, row in rows])
        except (OSError, StoreError):
            found: list[tuple[int, bytes]] = []
        else:
            return [(offset, data) for (offset, _), data in zip(rows, records, strict=True)]
        for offset, row in rows:
            try:
                found.append((offset, self._reader.fetch([row])[0]))
            except (OSError, StoreError):
                continue
        return found

    def _check_due(self, now_ms: int) -> None:
        """Check the transactions that are due; give up those that have had `count_max` checks."""
        try:
            due = self._due(now_ms)
        except (OSError, StoreError):
            return
        messages: list[Message] = []
        changes: list[StateChange] = []
        asked: list[tuple[int, bytes]] = []
        for offset, data in self._readable(due):
            opened = self._open[offset]
            if opened.checks >= self.check_policy.count_max:
                messages.append(half.given_up(data))
                changes.append(self._end(offset, "given up"))
                continue
            opened.checks += 1
            changes.append(StateChange(HALF, _key(offset), opened.encode()))
            asked.append((offset, data))

        def written(result: list[Placed] | Failure) -> None:
            if not isinstance(result, Failure):
                for offset, data in asked:
                    self._ask(offset, data)

        if changes:
            self._writer.put(messages, changes, written)

    def _ask(self, offset: int, data: bytes) -> None:
        opened = self._open.get(offset)
        if opened is not None and not self._stopped:
            self.checked += 1
            delivered = [listener.undecided(opened.group, half.as_sent(data), opened.checks) for listener in self._listeners]
            if not any(delivered):
                self._unanswered.add(opened.group, opened.message_id)

    def _repeat_checks(self, names: Sequence[tuple[str, str]]) -> None:
        """Repeat checks without counting them. The next regular check is due one interval from now."""
        offsets = [self._by_name[name] for name in names if name in self._by_name]
        try:
            rows = [(offset, row) for offset in offsets if (row := self._row(offset)) is not None]
        except (OSError, StoreError):
            return
        next_ms = self._clock.wall_ms() + self.check_policy.interval_ms
        for offset, data in self._readable(rows):
            self._open[offset].next_ms = next_ms
            heappush(self._heap, (next_ms, offset))
            self._ask(offset, data)
        self._arm()

    # Retention

    def copies(self, position: int) -> tuple[list[Message], list[StateChange]]:
        """Copies of the next open half messages before `position`, and the changes that replace the old ones; empty when done.

        The caller appends them at once. A copy has another offset and position, so decisions find it by its id. Raises
        StoreError, OSError.
        """
        old: list[int] = []
        rows: list[Row] = []
        size = 0
        for offset in self._open:
            row = self._row(offset)
            if row is None or row[0] >= position or len(rows) >= BATCH_HALVES or size >= BATCH_BYTES:
                break
            old.append(offset)
            rows.append(row)
            size += row[1]
        messages = [half.copied(data) for data in self._reader.fetch(rows)]
        changes: list[StateChange] = []
        next_offset = self._writer.half_queue().next
        for offset in old:
            opened = self._open[offset]
            changes.append(self._remove(offset))
            self._add(next_offset, opened)
            changes.append(StateChange(HALF, _key(next_offset), opened.encode()))
            next_offset += 1
        return messages, changes


def _key(offset: int) -> bytes:
    return offset.to_bytes(8, "big")
