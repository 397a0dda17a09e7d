"""The applied part of a follower's log: it grows in short turns up to the confirmed position, and checkpoints cover it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from domain.errors import lacks_descriptor
from domain.ports import Clock, Timer
from store.log.batch import Header
from store.opening.recovered_log import RecoveredLog
from store.replication.replica_log.raw_log import RawLog

_APPLY_NS: Final = 2_000_000
"""Length of a turn of applying, and of the pause after it."""


@final
class AppliedLog:
    """`store.checkpoint.checkpointer.CheckpointedLog` of a replica that follows.

    confirmed   position up to which batches may be applied
    """

    def __init__(self, log: RecoveredLog, raw: RawLog, clock: Clock) -> None:
        self.confirmed = log.recovery.applied
        self._log = log
        self._raw = raw
        self.faults = raw.faults
        self._clock = clock
        self._timer: Timer | None = None
        self._stopped = False

    # CheckpointedLog

    @property
    def written(self) -> int:
        """CheckpointedLog.written."""
        return self._log.recovery.applied

    @property
    def covered(self) -> int:
        """CheckpointedLog.covered."""
        return self._log.recovery.applied

    @property
    def end(self) -> int:
        """CheckpointedLog.end."""
        return self._log.recovery.applied

    @property
    def state_bytes(self) -> int:
        """CheckpointedLog.state_bytes."""
        return self._log.recovery.state_bytes

    def when_synced(self, done: Callable[[], None]) -> None:
        """CheckpointedLog.when_synced."""
        self._raw.sync(done)

    # Applying

    def confirm(self, position: int) -> None:
        """Apply up to `position` from now on."""
        if position > self.confirmed:
            self.confirmed = position
            self._apply_soon()

    def go_on(self) -> None:
        """Continue to apply after the repair of a damaged part."""
        if not self._stopped and self.end < min(self.confirmed, self._raw.behind):
            self._apply_soon()

    def end_turns(self) -> None:
        """Apply nothing more by itself: the log is closed, or promoted."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _apply_soon(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.monotonic_ns(), self._turn)

    def _turn(self) -> None:
        self._timer = None
        now = self._clock.monotonic_ns()
        if not self.apply_until(now + _APPLY_NS):
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + _APPLY_NS, self._turn)

    def apply_until(self, end_ns: int) -> bool:
        """Apply confirmed batches of the log until `end_ns`, -1 for no limit. False when more are left, or without a file
        descriptor to read them with."""
        log, most = self._log, min(self.confirmed, self._raw.written)
        whole = True
        try:
            for header, data in self._batches(most):
                log.apply(header, data)
                if 0 <= end_ns <= self._clock.monotonic_ns():
                    whole = False
                    break
        except OSError as error:
            whole = not lacks_descriptor(error)
            if whole:
                self.faults.stop("a read of the log", error)
        log.ledger.replay.finish()
        if whole and self.end < min(most, self._raw.behind):
            log.suspects.add(self.end)
        return whole

    def _batches(self, end: int) -> Iterator[tuple[Header, bytes]]:
        """Whole batches up to position `end` that are not applied. The caller applies each one before it takes the next.

        Fresh batches are not read and checked again. Raises OSError.
        """
        segments, fresh, recovery = self._log.files.segments, self._raw.fresh, self._log.recovery
        while recovery.applied < end:
            if fresh.has(recovery.applied) or fresh.has(segments.after(recovery.applied)):
                found = fresh.first()
                if found[0].position + found[0].size > end:
                    return
                yield found
                continue
            before = recovery.applied
            for found in segments.walk(before, True):
                if found[0].position + found[0].size > end:
                    return
                yield found
                if fresh.has(recovery.applied):
                    break
            if recovery.applied == before:
                return
