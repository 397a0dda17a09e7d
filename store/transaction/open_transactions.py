"""Open transactions: what is undecided, who is to be asked when, and what a decision does. All of it is derived from the log.

An open half message is one key of the state space `@half`: its offset in the half queue. The key comes with the message in
one commit, and goes in the commit of the decision, with the real message when that is to commit; so a half is decided once,
whatever is cut off. In memory a transaction is what has been accepted, durable or not: the log keeps the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, Protocol, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.limits import TRANSACTIONS_OPEN_MAX
from domain.message import Message, Placed
from domain.ports import Clock, StateChange, Timer
from domain.record import Record
from domain.transaction import Questions, TransactionListener
from store.log.commit import Done
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row
from store.state.view import HALF
from store.transaction import half
from store.transaction.half import Half
from store.transaction.unanswered import UnansweredChecks

BATCH_HALVES: Final = 256
BATCH_BYTES: Final = 1024 * 1024
ENDED_MAX: Final = 65_536
_RECHECK_MS: Final = 1_000
_HEAP_SLACK: Final = 1_024


class TransactionHost(Protocol):
    """What the book needs of the store."""

    def refusal(self) -> Failure | None:
        """Why nothing can be taken now."""

    def half_queue(self) -> Queue:
        """The queue of half messages, made when there is none."""

    def records(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of rows."""

    def halves(self) -> Iterator[tuple[bytes, bytes]]:
        """All of the state space, in key order."""

    def has_topic(self, name: str) -> bool:
        """True when the topic exists."""

    def put(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Append messages and changes in one commit, at the default level at least."""


@final
class OpenTransactions:
    """The `Transactions` port, and what retention needs."""

    def __init__(self, index: QueueIndex, clock: Clock, host: TransactionHost, questions: Questions) -> None:
        self.questions = questions
        self._index = index
        self._clock = clock
        self._host = host
        self._listeners: list[TransactionListener] = []
        self._open: dict[int, Half] = {}
        self._by_name: dict[tuple[str, str], int] = {}
        self._outcomes: dict[tuple[str, str], str] = {}
        self._heap: list[tuple[int, int]] = []
        self._unanswered = UnansweredChecks(clock, self._repeat_checks)
        self._timer: Timer | None = None
        self._stopped = False
        self.checked = self.ended = 0

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> None:
        """The log has been read: take up what is open. Whether the latest question was delivered nobody knows."""
        for key, value in self._host.halves():
            opened = half.decode(value)
            self._add(int.from_bytes(key, "big"), opened)
            if opened.checks:
                self._unanswered.add(opened.group, opened.message_id)
        self._arm()

    def stop(self) -> None:
        """The store is closed: nobody is asked any more."""
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
        """Half messages in the form of `half.prepared` are about to be appended, at once and in this order: the changes to go
        with them. One that repeats an open one (a producer that sent again) takes its place. OVERLOADED.
        """
        if len(self._open) + len(messages) > TRANSACTIONS_OPEN_MAX:
            return Failure(ErrorCode.OVERLOADED, f"{len(self._open)} transactions are open: decide over some of them first")
        offset = self._host.half_queue().next
        changes: list[StateChange] = []
        now_ms = self._clock.wall_ms()
        for message in messages:
            opened = half.opened(message, now_ms, self.questions.timeout_ms)
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
        """Forget an open transaction; what the log has to know of it."""
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

        failure = self._host.refusal()
        if failure is not None:
            answer(failure)
            return
        wanted = "committed" if commit else "rolled back"
        at = self._find(group, message_id, offset)
        if at < 0:
            ended = self._outcomes.get((group, message_id), wanted if 0 <= offset < self._host.half_queue().next else "")
            if ended == wanted:
                self._host.put((), (), answer)  # the decision may still be on its way to the disk
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
            messages = [half.committed(data) for data in self._host.records([row])] if commit else []
        except (OSError, StoreError) as error:
            answer(Failure(ErrorCode.INTERNAL, f"the half message at {at} cannot be read: {error}"))
            return
        if messages and not self._host.has_topic(messages[0].topic):
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {messages[0].topic} is no more: the message was dropped")
            self._host.put((), (self._end(at, "rolled back"),), lambda result: answer(failure))
            return
        self._host.put(messages, (self._end(at, wanted),), answer)

    def topic(self, group: str, message_id: str, offset: int) -> str:
        """Transactions.topic."""
        at = self._find(group, message_id, offset)
        row = self._row(at) if at >= 0 else None
        if row is None:
            return ""
        try:
            (data,) = self._host.records([row])
        except (OSError, StoreError):
            return ""
        return half.destination_of(Record(data))[0]

    def _find(self, group: str, message_id: str, offset: int) -> int:
        """Where the open half is that a decision means, -1 for none."""
        return offset if offset in self._open else self._by_name.get((group, message_id), -1)

    def _row(self, offset: int) -> Row | None:
        """The row of a half that can be read."""
        queue = self._host.half_queue()
        self._index.refresh(queue)
        rows = self._index.rows(queue, offset, 1) if queue.first <= offset < queue.visible else []
        return rows[0] if rows else None

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
        if self._host.refusal() is None:
            self._check_due(self._clock.wall_ms())
        self._arm()

    def _due(self, now_ms: int) -> list[tuple[int, Row]]:
        due: list[tuple[int, Row]] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < BATCH_HALVES:
            next_ms, offset = heappop(self._heap)
            opened = self._open.get(offset)
            if opened is None or opened.next_ms != next_ms:
                continue
            opened.next_ms = now_ms + self.questions.interval_ms
            heappush(self._heap, (opened.next_ms, offset))
            row = self._row(offset)
            if row is not None:
                due.append((offset, row))
        return due

    def _check_due(self, now_ms: int) -> None:
        """Ask about what is due, and give up what has been asked about often enough."""
        try:
            due = self._due(now_ms)
            records = self._host.records([row for _, row in due])
        except (OSError, StoreError):
            return
        messages: list[Message] = []
        changes: list[StateChange] = []
        asked: list[tuple[int, bytes]] = []
        for (offset, _), data in zip(due, records, strict=True):
            opened = self._open[offset]
            if opened.checks >= self.questions.count_max:
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
            self._host.put(messages, changes, written)

    def _ask(self, offset: int, data: bytes) -> None:
        opened = self._open.get(offset)
        if opened is not None and not self._stopped:
            self.checked += 1
            delivered = [listener.undecided(opened.group, half.as_sent(data), opened.checks) for listener in self._listeners]
            if not any(delivered):
                self._unanswered.add(opened.group, opened.message_id)

    def _repeat_checks(self, names: Sequence[tuple[str, str]]) -> None:
        """Put questions again that were put in vain, uncounted. The next one has its time from now on."""
        offsets = [self._by_name[name] for name in names if name in self._by_name]
        rows = [(offset, row) for offset in offsets if (row := self._row(offset)) is not None]
        try:
            records = self._host.records([row for _, row in rows])
        except (OSError, StoreError):
            return
        next_ms = self._clock.wall_ms() + self.questions.interval_ms
        for (offset, _), data in zip(rows, records, strict=True):
            self._open[offset].next_ms = next_ms
            heappush(self._heap, (next_ms, offset))
            self._ask(offset, data)
        self._arm()

    # Retention

    def copies(self, position: int) -> tuple[list[Message], list[StateChange]]:
        """The next open halves of which the record stands before `position`, to be appended again at once, with the changes
        that make the old ones void; both empty when none is left. A copy has other offsets, so it is then found by its id.
        Raises StoreError, OSError.
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
        messages = [half.copied(data) for data in self._host.records(rows)]
        changes: list[StateChange] = []
        next_offset = self._host.half_queue().next
        for offset in old:
            opened = self._open[offset]
            changes.append(self._remove(offset))
            self._add(next_offset, opened)
            changes.append(StateChange(HALF, _key(next_offset), opened.encode()))
            next_offset += 1
        return messages, changes


def _key(offset: int) -> bytes:
    return offset.to_bytes(8, "big")
