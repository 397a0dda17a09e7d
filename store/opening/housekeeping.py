"""The life of an open store: its start, the work of every second, the clean end, and the closing of the files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Final, final

from domain.ports import Clock, Disk, Timer
from store.checkpoint.recovery import ABORT, running
from store.opening.parts import StoreParts
from store.reads.startup_queue import StartupQueue
from store.steps import Turns

_SECOND_NS: Final = 1_000_000_000
REST_NS: Final = 10 * _SECOND_NS
"""A lease table without leases that has not changed for one to two times this long is packed."""
RESTLESS_MAX: Final = 8_192
"""Number of tables changed since the last packing from which on the next one is within _LOOK_NS: live tables are large."""
_LOOK_NS: Final = 100_000_000
_COVERS: Final = 2
"""Further checkpoints of a clean end: waiting receivers lease the last messages while the first one is written."""
_LOOKS: Final = 9
"""Polls of the number of changed tables within a second, while they are many."""


@final
class Housekeeping:
    """Starts the parts of a store, runs their periodic work, and stops them.

    _rests    packs lease tables that have not changed for a while, and counts
    _polls    remaining calls of `_rest` before the next second
    """

    def __init__(
        self, parts: StoreParts, held: StartupQueue, disk: Disk, clock: Clock, end_backups: Callable[[], None], boot: str
    ) -> None:
        """`boot`: which start of the machine this is."""
        self._boot = boot
        self._end_backups = end_backups
        self._parts = parts
        self._held = held
        self._disk = disk
        self._clock = clock
        self._spills = Turns(clock)
        self._rests = Turns(clock)
        self._scrubs = Turns(clock)
        self._rest_ns = clock.monotonic_ns()
        self._polls = 0
        self._timer: Timer | None = None
        self._poll_timer: Timer | None = None
        self._closed = False

    def start(self) -> None:
        """Start the parts after recovery. Held calls run when the recovered log is durable."""
        parts = self._parts
        try:
            self._disk.replace(ABORT, running(self._boot))
        except OSError as error:
            parts.commit.faults.failed("a write of the data directory", error)
        parts.ledger.recovered()
        parts.wheel.start()
        parts.open_transactions.start()
        parts.group_removal.start()
        if parts.commit.durable < parts.commit.written:
            parts.commit.when_synced(self._held.release)
        else:
            self._held.release()
        self._rests.run_unwatched(parts.census.steps())
        self._tick()

    def _tick(self) -> None:
        if self._closed:
            return
        try:
            self._second()
        finally:  # an error, such as of a volume that is away for a moment, does not stop later polls
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + _SECOND_NS, self._tick)

    def _second(self) -> None:
        parts = self._parts
        commit = parts.commit
        if self._held.holding and commit.faults.broken is not None:
            self._held.release()
        parts.admission.check_space()
        if not self._spills.busy and commit.faults.refusal() is None:
            forgets = (parts.index.forget_deleted(), parts.ledger.forget_removed(), parts.state.forget_removed())
            spills = chain(parts.index.spill(), *forgets)
            self._spills.run(spills, lambda: None, partial(commit.faults.failed, "a write of the index"))
        self._rest()
        parts.checkpointer.check()
        parts.retention.check()
        parts.once.check()
        parts.group_removal.check()
        parts.keys.drop_before(parts.segments.first)
        if not self._scrubs.busy:
            self._scrubs.run_unwatched(parts.scrubber.second())

    def _rest(self) -> None:
        """Pack lease tables that have not changed for a while, when that is due; poll again soon while many change."""
        ledger, now = self._parts.ledger, self._clock.monotonic_ns()
        many = ledger.restless >= RESTLESS_MAX
        if many or ledger.restless * (_LOOKS + 1) >= RESTLESS_MAX:
            self._polls = _LOOKS
        if (many or now - self._rest_ns >= REST_NS) and not self._rests.busy:
            self._rest_ns = now
            self._rests.run_unwatched(chain(ledger.rest(), self._parts.census.steps()))
        if self._polls and self._poll_timer is None:
            self._poll_timer = self._clock.call_at(now + _LOOK_NS, self._poll)

    def _poll(self) -> None:
        self._poll_timer = None
        self._polls -= 1
        self._rest()

    def drain(self, done: Callable[[], None]) -> None:
        """Refuse new writes, make the earlier ones durable and write a checkpoint; then call `done`."""
        commit, checkpointer = self._parts.commit, self._parts.checkpointer
        self._parts.admission.close("the store is being closed")
        if commit.faults.refusal() is not None:
            done()
            return

        def marked() -> None:
            self._disk.remove(ABORT)
            done()

        def covered(more: int) -> None:
            if more and checkpointer.last.position < commit.end:
                checkpointer.begin(False, partial(covered, more - 1))
            else:
                commit.mark.write(marked)

        checkpointer.begin(False, partial(covered, _COVERS))

    def close(self) -> None:
        """Stop the parts and close the files. Without `drain` before, the next start reads the log from the last checkpoint."""
        if self._closed:
            return
        self._closed = True
        parts = self._parts
        parts.admission.close("the store is closed")
        for timer in (self._timer, self._poll_timer):
            if timer is not None:
                timer.cancel()
        self._spills.stop()
        self._rests.stop()
        self._scrubs.stop()
        self._end_backups()
        parts.retention.stop()
        parts.once.stop()
        parts.group_removal.stop()
        parts.repairs.close()
        parts.ledger.stop()
        parts.wheel.stop()
        parts.open_transactions.stop()
        parts.commit.close()
        parts.index.files.segments.close()
        parts.keys.close()
