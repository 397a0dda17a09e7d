"""Reads that a follower serves: its log, topics and state, up to the applied position, which is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.replication.reads import LogReads
from domain.store.store_ports import Metadata, ReadResult, State, StateChange
from domain.store.store_request import ReadRequest
from store.log.open_batch import Done
from store.opening.recovered_log import RecoveredLog
from store.reads.reading import Reading, WrittenLog
from store.reads.repair_waits import RepairWaits

OVER: Final = Failure(ErrorCode.STORE_UNAVAILABLE, "this replica does not follow any more: ask again, or ask another one")
READ_ONLY: Final = Failure(ErrorCode.STORE_UNAVAILABLE, "this replica follows, and changes nothing: ask the leader")


@final
class FollowerLogReads:
    """`domain.replication.reads.LogReads` over the applied log.

    open   False: all reads are refused. Batches applied at a promotion, beyond the confirmed position, are never read here
    """

    def __init__(self, reading: Reading, repairs: RepairWaits) -> None:
        """`repairs`: holds reads that meet damage."""
        self.open = True
        self._reading = reading
        self._repairs = repairs

    def read(self, request: ReadRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """LogReads.read."""
        result = self._reading.read(request) if self.open else OVER
        if not isinstance(result, Failure) or not self._repairs.hold(result, done, partial(self.read, request, done)):
            done(result)

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """LogReads.record_at."""
        found = self._reading.at(physical_offset) if self.open else OVER
        if not isinstance(found, Failure) or not self._repairs.hold(
            found, done, partial(self.record_at, physical_offset, done)
        ):
            done(found)

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """LogReads.bounds."""
        done(self._reading.bounds(topic, queue_id) if self.open else OVER)

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """LogReads.search."""
        done(self._reading.search(topic, queue_id, timestamp_ms, upper) if self.open else OVER)


@final
class FollowerView:
    """`domain.replication.reads.FollowerReads` of one opening."""

    def __init__(self, log: RecoveredLog, applied: WrittenLog) -> None:
        """`applied`: has the applied position of the log."""
        reading, metadata, state = log.reads(applied, _refuse)
        self._reads = FollowerLogReads(reading, log.repairs)
        self._log = log
        self._applied = applied
        self.log: LogReads = self._reads
        self.metadata: Metadata = metadata
        self.state: State = state

    def figures(self) -> dict[str, float]:
        """FollowerReads.figures."""
        end = self._applied.written
        return {"log_end": end, "log_bytes": end - self._log.files.segments.first}

    def close(self) -> None:
        """Refuse all reads; those that wait for a repair are refused soon."""
        self._reads.open = False
        self._log.repairs.mended()


def _refuse(_changes: Sequence[StateChange], done: Done | None) -> None:
    if done is not None:
        done(READ_ONLY)
