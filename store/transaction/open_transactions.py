"""Open transactions: the undecided ones, and the storing of decisions. All derived from the log.

An open transaction is one key of the state space `@half`: the offset of its half message in the half queue. One commit writes
the message and the key. Another one removes the key and, when the decision is to commit, writes the real message; so a
transaction is decided once, wherever a crash cuts the log. Memory holds what has been accepted, durable or not, since the log
keeps the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.limits import TRANSACTIONS_OPEN_MAX
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.ports import Clock
from domain.store.store_ports import StateChange
from domain.transaction import TransactionCheckPolicy, TransactionListener
from store.appends.writer import StoreWriter
from store.delay.accompaniment import Accompaniment
from store.log.reader import RecordReader
from store.queue.index import QueueIndex
from store.queue.row import Row
from store.state.view import HALF, StateView
from store.transaction import half
from store.transaction.checks import TransactionChecks
from store.transaction.open_halves import OpenHalves
from store.transaction.stored_halves import StoredHalves

BATCH_HALVES: Final = 256
BATCH_BYTES: Final = 1024 * 1024
"""Half messages and bytes of one step of copying forward."""


@final
class OpenTransactions:
    """The `Transactions` port, and the copies that retention needs.

    check_policy  times and number of the checks of a transaction
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
        self._open = OpenHalves()
        self._stored = StoredHalves(index, reader, writer)
        self.checks = TransactionChecks(self._open, self._stored, clock, writer, check_policy)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def ended(self) -> int:
        """Number of transactions that were committed, rolled back or given up since the start."""
        return self._open.ended

    def start(self) -> None:
        """Load the open transactions, after recovery. Checks sent before count as unanswered: their answer may be lost."""
        for key, value in self._state.scan(HALF, b""):
            opened, offset = half.decode(value), int.from_bytes(key, "big")
            if self._stored.is_lost(offset):
                continue
            self._open.add(offset, opened)
            if opened.checks:
                self.checks.without_producer.add(opened.group, opened.message_id)
        self.checks.arm()

    def stop(self) -> None:
        """Stop checking: the store is closed."""
        self.checks.stop()

    def listen(self, listener: TransactionListener) -> None:
        """Transactions.listen."""
        self.checks.listen(listener)

    def present(self, group: str) -> None:
        """Transactions.present."""
        self.checks.without_producer.present(group)

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
            before = self._open.named(opened.group, opened.message_id)
            if before >= 0:
                changes.append(self._open.remove(before))
                self.checks.without_producer.forget(opened.group, opened.message_id)
            changes.append(self._open.add(offset, opened))
            offset += 1
        self.checks.arm()
        return changes

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
            ended = self._open.outcome(group, message_id)
            if ended is None:
                ended = wanted if 0 <= offset < self._writer.half_queue().next else ""
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
            row = self._stored.row(at)
            if row is None or (at == offset and position not in (-1, row[0])):
                answer(Failure(ErrorCode.MESSAGE_NOT_FOUND, f"no half message of offset {offset} is stored at {position}"))
                return
            messages = [half.committed(data) for data in self._reader.fetch([row])] if commit else []
        except (OSError, StoreError) as error:
            answer(Failure(ErrorCode.INTERNAL, f"the half message at {at} cannot be read: {error}"))
            return
        if messages and not self._index.has_topic(messages[0].topic):
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {messages[0].topic} is no more: the message was dropped")
            self._writer.put((), (self.checks.end(at, "rolled back"),), lambda result: answer(failure))
            return
        accompanied = [change for message in messages for change in self._accompaniment.changes_of(message)]
        self._writer.put(messages, (*accompanied, self.checks.end(at, wanted)), answer)

    def topic(self, group: str, message_id: str, offset: int, done: Callable[[str | Failure], None]) -> None:
        """Transactions.topic."""
        at = self._find(group, message_id, offset)
        try:
            row = self._stored.row(at) if at >= 0 else None
            data = b"" if row is None else self._reader.fetch([row])[0]
        except (OSError, StoreError) as error:
            done(Failure(ErrorCode.INTERNAL, f"the half message cannot be read: {error}"))
            return
        done(half.destination_of(Record(data))[0] if data else "")

    def _find(self, group: str, message_id: str, offset: int) -> int:
        """The offset of the open half message that a decision refers to, -1 when it is not open."""
        return offset if self._open.get(offset) is not None else self._open.named(group, message_id)

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
            row = self._stored.row(offset)
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
            changes.append(self._open.remove(offset))
            changes.append(self._open.add(next_offset, opened))
            next_offset += 1
        return messages, changes
