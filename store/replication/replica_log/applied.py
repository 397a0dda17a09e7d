"""The applied part of a follower's log, for its checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.errors import Failure
from store.opening.recovered_log import StoreOpening
from store.replication.replica_log.raw_log import RawLog


@final
class AppliedLog:
    """`store.checkpoint.checkpointer.CheckpointedLog` of a replica that follows."""

    def __init__(self, opening: StoreOpening, raw: RawLog) -> None:
        self._opening = opening
        self._raw = raw

    @property
    def written(self) -> int:
        """CheckpointedLog.written."""
        return self._opening.recovery.applied

    @property
    def covered(self) -> int:
        """CheckpointedLog.covered."""
        return self._opening.recovery.applied

    @property
    def end(self) -> int:
        """CheckpointedLog.end."""
        return self._opening.recovery.applied

    @property
    def state_bytes(self) -> int:
        """CheckpointedLog.state_bytes."""
        return self._opening.recovery.state_bytes

    @property
    def broken(self) -> Failure | None:
        """CheckpointedLog.broken."""
        return self._raw.broken

    def refusal(self) -> Failure | None:
        """CheckpointedLog.refusal."""
        return self._raw.broken or self._raw.full

    def when_synced(self, done: Callable[[], None]) -> None:
        """CheckpointedLog.when_synced."""
        self._raw.sync(done)

    def stop(self, what: str, error: OSError) -> None:
        """CheckpointedLog.stop."""
        self._raw.stop(what, error)

    def fill(self, what: str, error: OSError) -> None:
        """CheckpointedLog.fill."""
        self._raw.failed(what, error)
