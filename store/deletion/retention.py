"""Retention: deletes whole segments that are too old or too many, after their needed values are written again.

check -> may the oldest segment go? -> rewriting.py: what is needed of it -> durable -> delete
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import final

from domain.ports import Clock
from domain.store.store_event import StoreEventKind
from store.deletion.rewriting import SegmentRewriting
from store.deletion.trimming import Trimming
from store.events import StoreEvents
from store.log.commit import GroupCommit
from store.log.segment import FOLDER, Segments, file_name
from store.settings import StoreSettings
from store.steps import Turns


@final
class Retention:
    """Deletes the oldest segments, one check at a time.

    _pressed   True when the deletion under way comes before its time
    """

    def __init__(
        self,
        segments: Segments,
        commit: GroupCommit,
        rewriting: SegmentRewriting,
        trimming: Trimming,
        clock: Clock,
        config: StoreSettings,
        events: StoreEvents,
        free_ratio: Callable[[], float],
    ) -> None:
        """`free_ratio()` is the free share of the volume, 0 to 1."""
        self._segments = segments
        self._commit = commit
        self._clock = clock
        self._config = config
        self._events = events
        self._free_ratio = free_ratio
        self._pressed = False
        self._telling = False
        self._rewriting = rewriting
        self._trimming = trimming
        self._turns = Turns(clock)
        self._running = False
        self._last_ns = clock.monotonic_ns()
        self.deleted = 0

    def check(self) -> None:
        """Trim topics with their own retention, then delete the oldest segment when it is due; every retention_check_ms."""
        now = self._clock.monotonic_ns()
        early = now - self._last_ns < self._config.retention_check_ms * 1_000_000
        if early or self._running or self._commit.faults.broken is not None:
            return
        self._last_ns = now
        now_ms = self._commit.time.now_ms()
        self._running = True
        self._pressed = self._telling = False
        self._turns.run(self._trimming.steps(now_ms), lambda: self._check(now_ms), self._trimming_failed)

    def stop(self) -> None:
        """Stop: the store is closed."""
        self._turns.stop()
        self._rewriting.stop()

    @property
    def copied(self) -> int:
        """Records written again since the start."""
        return self._rewriting.copied

    def _trimming_failed(self, _: OSError) -> None:
        self._trimming.forget()
        self._running = False

    def _check(self, now_ms: int) -> None:
        segment = self._segments.all[0]
        total = self._segments.end - self._segments.first
        age = now_ms - segment.newest_ms
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
        if self._commit.faults.broken is not None:
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
        self._rewriting.run(base, partial(self._rewritten, base))

    def _rewritten(self, base: int, durable: bool) -> None:
        if durable:
            self._commit.mark.raise_first(base, lambda: self._drop(base))
        else:
            self._running = False

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
        self._trimming.log_begins(base)
        self._running = False
        self._rewriting.resume_timers()
        if self._commit.faults.broken is None:
            self._running = True
            self._check(self._commit.time.now_ms())

    def _tell_pressed(self) -> None:
        if self._telling:
            self._telling = False
            name = file_name(FOLDER, self._segments.first)
            free, least = self._free_ratio(), self._config.pressure_ratio
            cause = f"deleted before its time: {free:.1%} of the volume is free, and `store.pressure_ratio` is {least:.0%}"
            self._events.notify(StoreEventKind.PRESSED, name, cause, "free space on the volume, or lower `store.retention_ms`")
