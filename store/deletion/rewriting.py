"""Rewriting of what the oldest segments hold and is still needed, before their deletion.

checkpoint with snapshot -> timers, in batches -> half messages -> state, in slices -> all of it durable
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.message.message import Placed
from domain.ports import Clock
from domain.store.store_ports import StateChange
from store.checkpoint.checkpointer import Checkpointer
from store.delay.wheel import BATCH_BYTES, BATCH_MESSAGES, Wheel
from store.deletion.compaction import Compaction
from store.log.commit import GroupCommit
from store.queue.row import Row
from store.steps import Turns
from store.transaction.open_transactions import OpenTransactions

_ENDED: Final[list[StateChange]] = []
_SLICE_NS: Final = 1_000_000
"""Pause after a slice in which nothing was found."""
_BEHIND_NS: Final = 20_000_000
"""Pause while a start would have too much to apply: a checkpoint is under way."""


@final
class SegmentRewriting:
    """Writes the needed values of the oldest segments again, for one deletion at a time.

    _done    gets True when all is durable, False when it cannot be written
    """

    def __init__(
        self, wheel: Wheel, open_transactions: OpenTransactions, needed: Compaction, checkpointer: Checkpointer,
        commit: GroupCommit, clock: Clock,
    ) -> None:  # fmt: skip
        self._wheel = wheel
        self._open_transactions = open_transactions
        self._needed = needed
        self._checkpointer = checkpointer
        self._commit = commit
        self._clock = clock
        self._turns = Turns(clock)
        self._base = 0
        self._done: Callable[[bool], None] | None = None
        self.copied = 0

    def run(self, base: int, done: Callable[[bool], None]) -> None:
        """Write what is needed of the segments before `base` again, after a checkpoint that needs none of them."""
        self._base, self._done = base, done
        self._checkpointer.cover(base, self._begin)

    def stop(self) -> None:
        """Stop: the store is closed."""
        self._turns.stop()

    def resume_timers(self) -> None:
        """Let timers be delivered again: no pending one is in the segments."""
        self._wheel.resume()

    def _begin(self) -> None:
        if not self._wheel.pause():
            self._end(False)
            return
        pending: list[tuple[int, Row]] = []
        steps = self._wheel.pending_below(self._base, pending)
        self._turns.run(steps, lambda: self._copy(pending, 0), lambda _: self._fail())

    def _copy(self, pending: list[tuple[int, Row]], at: int) -> None:
        if at == len(pending):
            self._copy_halves()
            return
        end, size = at, 0
        while end < len(pending) and end - at < BATCH_MESSAGES and size < BATCH_BYTES:
            size += pending[end][1][1]
            end += 1
        try:
            messages, changes = self._wheel.copies(pending[at:end])
        except (OSError, StoreError):
            self._fail()
            return
        self._needed.keep(messages, changes, partial(self._copied, lambda: self._copy(pending, end)))

    def _copy_halves(self) -> None:
        try:
            messages, changes = self._open_transactions.copies(self._base)
        except (OSError, StoreError):
            self._fail()
            return
        if not messages:
            self.resume_timers()
            self._carry(self._needed.carry(self._base))
            return
        self._needed.keep(messages, changes, partial(self._copied, self._copy_halves))

    def _copied(self, go_on: Callable[[], None], result: list[Placed] | Failure) -> None:
        if isinstance(result, Failure):
            if result.code is ErrorCode.FLUSH_TIMEOUT:
                # The copies are in the log. Timers stay paused until they are durable: a second copy would be delivered, too.
                self._needed.keep((), (), partial(self._copied, go_on))
            else:
                self._fail()
            return
        self.copied += len(result)
        go_on()

    def _carry(self, slices: Iterator[list[StateChange] | None]) -> None:
        if self._commit.faults.broken is not None:
            self._fail()
            return
        if self._checkpointer.is_behind():
            self._clock.call_at(self._clock.monotonic_ns() + _BEHIND_NS, lambda: self._carry(slices))
            return
        try:
            changes = next(slices, _ENDED)
        except (OSError, StoreError):
            self._fail()
            return
        if changes is None:
            self._clock.call_at(self._clock.monotonic_ns() + _SLICE_NS, lambda: self._carry(slices))
            return
        if changes is _ENDED:
            self._needed.keep(
                (), self._wheel.timers.drop_recalled_below(self._base), partial(self._copied, lambda: self._end(True))
            )
            return
        self.copied += len(changes)
        self._needed.keep((), changes, partial(self._copied, lambda: self._carry(slices)))

    def _fail(self) -> None:
        self._end(False)
        self.resume_timers()

    def _end(self, durable: bool) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(durable)
