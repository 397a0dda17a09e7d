"""Accepted batches that are not written: the open one, which takes appends, and closed ones that wait for their write.

    append -> room() -> the open batch -> seal() -> closed batches, in order -> group commit writes them

Each turn of the loop in which something is accepted is followed by one call of group commit, at the end of the turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.ports import Clock
from store.log import batch
from store.log.open_batch import Effects, OpenBatch
from store.settings import StoreSettings
from store.state import change


@final
class AcceptedBatches:
    """The end of the log for appends.

    base        base of the segment of the next batch
    store_ms    newest store time, in epoch ms
    open        the batch that takes appends; None: the next append opens one
    sealed      closed batches to write, in order; None closes the segment
    scheduled   True when `_turn` will run at the end of this turn
    """

    __slots__ = ("_clock", "_config", "_turn", "base", "end", "open", "scheduled", "sealed", "store_ms")

    def __init__(self, base: int, end: int, clock: Clock, config: StoreSettings, turn: Callable[[], None]) -> None:
        self.base = base
        self.end = end
        self.store_ms = 0
        self.open: OpenBatch | None = None
        self.sealed: list[OpenBatch | None] = []
        self.scheduled = False
        self._clock = clock
        self._config = config
        self._turn = turn

    def begin(self, base: int, end: int, store_ms: int) -> None:
        """Begin at the end of the log, after recovery."""
        self.base = base
        self.end = end
        self.store_ms = store_ms

    def room(self, size: int, state: int = 0) -> OpenBatch:
        """Open batch with room for `size` bytes of records and `state` bytes of changes in the same segment."""
        current = self.open
        if current is not None and current.end + current.reserved + size + state - self.base <= self._config.segment_bytes:
            current.reserved += state
            self.wake()  # the batch may have been left open for the next sync, without a scheduled turn
            return current
        self.seal()
        if self.end + batch.HEADER_BYTES + change.RECORD_OVERHEAD_BYTES + size + state - self.base > self._config.segment_bytes:
            self.roll()
        current = self.open = OpenBatch(self.end, self.stamp(), self._clock.monotonic_ns())
        current.reserved += state
        self.end = current.end
        self.wake()
        return current

    def stamp(self) -> int:
        """Store time of a new batch, in epoch ms: the wall clock, but never decreasing, so that queues are sorted by it."""
        self.store_ms = max(self.store_ms, self._clock.wall_ms())
        return self.store_ms

    def roll(self) -> None:
        """Close the segment after the last accepted byte and begin the next one; does nothing when the segment is empty."""
        self.seal()
        if self.end == self.base:
            return
        self.sealed.append(None)
        self.end += batch.FILLER_BYTES
        self.base = self.end
        self.wake()

    def seal(self) -> None:
        """Close the open batch, if there is one."""
        current = self.open
        if current is not None:
            self.open = None
            current.seal(self.store_ms, self._config.store_host)
            self.end = current.end
            self.sealed.append(current)

    def wake(self) -> None:
        """Schedule the write at the end of this turn."""
        if not self.scheduled:
            self.scheduled = True
            self._clock.call_soon(self._turn)

    def effects(self) -> list[Effects]:
        """Effects of the closed batches, one for each durability level."""
        return [effects for sealed in self.sealed if sealed is not None for effects in (sealed.page, sealed.flushed)]
