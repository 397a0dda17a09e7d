"""Checks of undecided transactions: sent to their producers when they are due, repeated, and given up after the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.errors import Failure, StoreError
from domain.message.message import Message, Placed
from domain.ports import Clock, Timer
from domain.store.store_ports import StateChange
from domain.transaction import TransactionCheckPolicy, TransactionListener
from store.appends.writer import StoreWriter
from store.queue.row import Row
from store.transaction import half
from store.transaction.checks_without_producer import ChecksWithoutProducer
from store.transaction.open_halves import OpenHalves
from store.transaction.stored_halves import StoredHalves

BATCH_HALVES: Final = 256
"""Half messages of one round of checks."""
_RECHECK_MS: Final = 1_000
"""The timer sleeps at most this long: the wall clock may jump."""


@final
class TransactionChecks:
    """The checks of the open transactions, at the times and up to the number of `policy`.

    sent               checks sent since the start
    without_producer   checks that found no producer
    """

    def __init__(
        self, opened: OpenHalves, stored: StoredHalves, clock: Clock, writer: StoreWriter, policy: TransactionCheckPolicy
    ) -> None:
        self.sent = 0
        self.without_producer = ChecksWithoutProducer(clock, self._repeat)
        self._open = opened
        self._stored = stored
        self._clock = clock
        self._writer = writer
        self._policy = policy
        self._listeners: list[TransactionListener] = []
        self._timer: Timer | None = None
        self._stopped = False

    def listen(self, listener: TransactionListener) -> None:
        """Transactions.listen."""
        self._listeners.append(listener)

    def stop(self) -> None:
        """Stop checking: the store is closed."""
        self._stopped = True
        self.without_producer.stop()
        if self._timer is not None:
            self._timer.cancel()

    def arm(self) -> None:
        """Set the timer for the next check that is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ms = self._open.next_ms()
        if next_ms and not self._stopped:
            wait = min(max(next_ms - self._clock.wall_ms(), 1), _RECHECK_MS)
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait * 1_000_000, self._fire)

    def end(self, offset: int, outcome: str) -> StateChange:
        """End a transaction, which is not checked any more; the change for the log."""
        opened = self._open[offset]
        self.without_producer.forget(opened.group, opened.message_id)
        return self._open.end(offset, outcome)

    def _fire(self) -> None:
        self._timer = None
        if self._writer.refusal() is None:
            self._check_due(self._clock.wall_ms())
        self.arm()

    def _due(self, now_ms: int) -> list[tuple[int, Row]]:
        due: list[tuple[int, Row]] = []
        while len(due) < BATCH_HALVES and (offset := self._open.due(now_ms)) >= 0:
            self._open.check_at(offset, now_ms + self._policy.interval_ms)
            row = self._stored.row(offset)
            if row is not None:
                due.append((offset, row))
        return due

    def _check_due(self, now_ms: int) -> None:
        """Check the transactions that are due; give up those that have had `count_max` checks."""
        try:
            due = self._due(now_ms)
        except (OSError, StoreError):
            return
        messages: list[Message] = []
        changes: list[StateChange] = []
        asked: list[tuple[int, bytes]] = []
        for offset, data in self._stored.readable(due):
            opened = self._open[offset]
            if opened.checks >= self._policy.count_max:
                messages.append(half.given_up(data))
                changes.append(self.end(offset, "given up"))
                continue
            opened.checks += 1
            changes.append(self._open.change(offset))
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
            self.sent += 1
            delivered = [listener.undecided(opened.group, half.as_sent(data), opened.checks) for listener in self._listeners]
            if not any(delivered):
                self.without_producer.add(opened.group, opened.message_id)

    def _repeat(self, names: Sequence[tuple[str, str]]) -> None:
        """Repeat checks without counting them. The next regular check is due one interval from now."""
        offsets = [offset for name in names if (offset := self._open.named(*name)) >= 0]
        try:
            rows = [(offset, row) for offset in offsets if (row := self._stored.row(offset)) is not None]
        except (OSError, StoreError):
            return
        next_ms = self._clock.wall_ms() + self._policy.interval_ms
        for offset, data in self._stored.readable(rows):
            self._open.check_at(offset, next_ms)
            self._ask(offset, data)
        self.arm()
