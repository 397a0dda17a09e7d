"""Retention: deletes whole segments that are too old or too many, after their needed values are written again.

check -> may the oldest segment go? -> checkpoint with snapshot -> copy timers and state forward -> durable -> delete
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol, final

from domain.errors import Failure, StoreError
from domain.message.message import Message, Placed
from domain.ports import Clock
from domain.store.store_event import StoreEventKind
from domain.store.store_ports import StateChange
from store.checkpoint.checkpointer import Checkpointer
from store.delay.wheel import BATCH_BYTES, BATCH_MESSAGES, Wheel
from store.deletion.read_holds import ReadHolds
from store.deletion.trimming import Trimming
from store.events import StoreEvents
from store.log.commit import GroupCommit
from store.log.open_batch import Done
from store.log.segment import FOLDER, Segments, file_name
from store.queue.index import QueueIndex
from store.queue.row import Row
from store.settings import StoreSettings
from store.steps import Turns
from store.transaction.open_transactions import OpenTransactions

_ENDED: Final[list[StateChange]] = []
_SLICE_NS: Final = 1_000_000
"""Pause after a slice in which nothing was found."""
_BEHIND_NS: Final = 20_000_000
"""Pause while a start would have too much to apply: a checkpoint is under way."""


class RetentionHost(Protocol):
    """Writes the needed values of a segment again."""

    def keep(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Write the needed values of a segment again; durable before `done`."""

    def carry(self, base: int) -> Iterator[list[StateChange] | None]:
        """Slices of live state, and of queues that become empty, whose newest record stands before `base`; None: a pause."""


@final
class Retention:
    """Deletes the oldest segments, one check at a time.

    deleted    segments deleted since the start
    copied     records copied forward since the start
    _pressed   True when the deletion under way comes before its time
    _running   True while a check or a deletion is under way
    """

    def __init__(
        self,
        segments: Segments,
        index: QueueIndex,
        commit: GroupCommit,
        wheel: Wheel,
        open_transactions: OpenTransactions,
        checkpointer: Checkpointer,
        clock: Clock,
        config: StoreSettings,
        host: RetentionHost,
        events: StoreEvents,
        free_ratio: Callable[[], float],
        holds: ReadHolds,
    ) -> None:
        """`free_ratio()` is the free share of the volume, 0 to 1."""
        self._segments = segments
        self._index = index
        self._commit = commit
        self._wheel = wheel
        self._open_transactions = open_transactions
        self._checkpointer = checkpointer
        self._clock = clock
        self._config = config
        self._host = host
        self._events = events
        self._free_ratio = free_ratio
        self._pressed = False
        self._telling = False
        self._trimming = Trimming(index, config, holds)
        self._turns = Turns(clock)
        self._running = False
        self._last_ns = clock.monotonic_ns()
        self.deleted = 0
        self.copied = 0

    def check(self) -> None:
        """Trim topics with their own retention, then delete the oldest segment when it is due; every retention_check_ms."""
        now = self._clock.monotonic_ns()
        early = now - self._last_ns < self._config.retention_check_ms * 1_000_000
        if early or self._running or self._commit.broken is not None:
            return
        self._last_ns = now
        wall_ms = self._clock.wall_ms()
        self._running = True
        self._pressed = self._telling = False
        self._turns.run(self._trimming.steps(wall_ms), lambda: self._check(wall_ms), self._trimming_failed)

    def stop(self) -> None:
        """Stop: the store is closed."""
        self._turns.stop()

    def _trimming_failed(self, _: OSError) -> None:
        self._trimming.forget()
        self._running = False

    def _check(self, wall_ms: int) -> None:
        segment = self._segments.all[0]
        total = self._segments.end - self._segments.first
        age = wall_ms - segment.newest_ms
        bound = self._config.retention_bytes
        if segment.end == segment.base:
            self._running = False
        elif bound and total - (segment.end - segment.base) >= bound:
            self._go()
        elif age < self._config.retention_ms and not self._press(age):
            self._running = False
        else:
            self._turns.run(self._holders(segment.end, age), self._unless_held, self._trimming_failed)

    def _holders(self, end: int, age: int) -> Iterator[int]:
        yield from self._trimming.holders(end, age)
        if not self._trimming.held and not self._pressed:
            yield from self._trimming.held_by_readers(end)

    def _press(self, age: int) -> bool:
        """True when the oldest segment, `age` ms old, has to go before its time: one in each check."""
        if self._pressed or age < self._config.pressure_keep_ms or self._free_ratio() >= self._config.pressure_ratio:
            return False
        self._pressed = self._telling = True
        return True

    def _unless_held(self) -> None:
        if self._trimming.held:
            self._running = False
        else:
            self._go()

    def _go(self) -> None:
        """Delete the oldest segment: no topic holds it."""
        if self._commit.broken is not None:
            self._running = False
            return
        if len(self._segments.all) == 1:
            self._commit.accepted.roll()
            self._running = False
            return
        base = self._segments.all[1].base
        if base > self._commit.covered:
            self._running = False  # a replica's checkpoints cover whole batches only, and the next segment has none yet
            return
        self._checkpointer.cover(base, lambda: self._begin(base))

    def _begin(self, base: int) -> None:
        if not self._wheel.pause():
            self._running = False
            return
        pending: list[tuple[int, Row]] = []
        steps = self._wheel.pending_below(base, pending)
        self._turns.run(steps, lambda: self._copy(pending, 0, base), lambda _: self._end())

    def _copy(self, pending: list[tuple[int, Row]], at: int, base: int) -> None:
        """Copy the needed parts of the segments before `base` forward: timers in batches, then half messages, then state."""
        if at == len(pending):
            self._copy_halves(base)
            return
        end, size = at, 0
        while end < len(pending) and end - at < BATCH_MESSAGES and size < BATCH_BYTES:
            size += pending[end][1][1]
            end += 1
        try:
            messages, changes = self._wheel.copies(pending[at:end])
        except (OSError, StoreError):
            self._end()
            return
        self._host.keep(messages, changes, partial(self._copied, lambda: self._copy(pending, end, base)))

    def _copy_halves(self, base: int) -> None:
        """Copy open half messages forward, in batches, then state."""
        try:
            messages, changes = self._open_transactions.copies(base)
        except (OSError, StoreError):
            self._end()
            return
        if not messages:
            self._wheel.resume()  # no pending message is left in these segments
            self._carry(self._host.carry(base), base)
            return
        self._host.keep(messages, changes, partial(self._copied, lambda: self._copy_halves(base)))

    def _copied(self, go_on: Callable[[], None], result: list[Placed] | Failure) -> None:
        if isinstance(result, Failure):
            self._end()
            return
        self.copied += len(result)
        go_on()

    def _carry(self, slices: Iterator[list[StateChange] | None], base: int) -> None:
        """Write the next slice of live state again; when all are durable, delete."""
        if self._commit.broken is not None:
            self._end()
            return
        if self._checkpointer.is_behind():
            self._clock.call_at(self._clock.monotonic_ns() + _BEHIND_NS, lambda: self._carry(slices, base))
            return
        try:
            changes = next(slices, _ENDED)
        except (OSError, StoreError):
            self._end()
            return
        if changes is None:
            self._clock.call_at(self._clock.monotonic_ns() + _SLICE_NS, lambda: self._carry(slices, base))
            return
        if changes is _ENDED:
            changes = self._wheel.timers.drop_recalled_below(base)
            self._host.keep((), changes, lambda result: self._delete(result, base))
            return
        self.copied += len(changes)

        def carried(result: list[Placed] | Failure) -> None:
            if isinstance(result, Failure):
                self._end()
            else:
                self._carry(slices, base)

        self._host.keep((), changes, carried)

    def _delete(self, result: list[Placed] | Failure, base: int) -> None:
        if isinstance(result, Failure):
            self._end()
            return
        self._commit.mark.raise_first(base, lambda: self._drop(base))

    def _drop(self, base: int) -> None:
        """Delete the segments before `base`: the promise mark says durably that the log may begin there."""
        self._tell_pressed()
        while self._segments.first < base:
            name = file_name(FOLDER, self._segments.first)
            try:
                self._segments.drop_first()
            except OSError as error:
                cause = f"not needed any more, and not deleted: {error.strerror or error}"
                self._events.notify(
                    StoreEventKind.LEFT, name, cause, "look at the disk; the next start deletes the file", error
                )
            self.deleted += 1
        self._index.log_start = base
        self._end()
        if self._commit.broken is None:
            self._running = True
            self._check(self._clock.wall_ms())

    def _tell_pressed(self) -> None:
        if self._telling:
            self._telling = False
            name = file_name(FOLDER, self._segments.first)
            free, least = self._free_ratio(), self._config.pressure_ratio
            cause = f"deleted before its time: {free:.1%} of the volume is free, and `store.pressure_ratio` is {least:.0%}"
            self._events.notify(StoreEventKind.PRESSED, name, cause, "free space on the volume, or lower `store.retention_ms`")

    def _end(self) -> None:
        self._running = False
        self._wheel.resume()
