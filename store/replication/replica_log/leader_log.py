"""The log of a leading replica: reads for followers, and confirmation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.errors import Failure, StoreError
from domain.ports import Clock
from domain.replication.message import Era
from domain.replication.ports import BatchMark, LogWork
from domain.store.store_event import StoreEventKind
from domain.store.store_ports import State, StateChange
from store.log import batch
from store.log.confirmation import Confirmation
from store.log.segment import FOLDER, file_name
from store.log.segment_ends import whole_batches
from store.opening.parts import StoreParts
from store.replication.replica_log.batch_before import batch_before
from store.replication.replica_log.eras import listed
from store.replication.replica_log.mendable import MendableSegments

SPACE: Final = "replication"
"""Space of the state for the records of leaders about themselves."""
EPOCH_KEY: Final = b"epoch"


@final
class StoredLeaderLog:
    """`domain.replication.ports.LeaderLog` over group commit.

    begin         position of its end at the promotion
    """

    def __init__(self, parts: StoreParts, eras: list[Era], begin: int, clock: Clock, state: State) -> None:
        """`eras`: the leader epochs of the log before position `begin`."""
        commit, segments, scrubs = parts.commit, parts.segments, parts.scrubber
        assert commit.confirmation is not None
        self._commit = commit
        self._confirmation: Confirmation = commit.confirmation
        self._segments = segments
        self._eras = eras
        self._events = parts.events
        self._admission = parts.admission
        self.epoch = commit.log.writer.epoch
        self.incarnation = commit.log.writer.incarnation
        self.begin = begin
        self._scrubs = scrubs
        self._state = state
        self.parts = MendableSegments(
            segments, scrubs, clock, lambda: self._confirmation.written, commit.accepted.roll, (), parts.repairs
        )

    @property
    def first(self) -> int:
        """LeaderLog.first."""
        return self._segments.first

    @property
    def written(self) -> int:
        """LeaderLog.written."""
        return self._commit.written

    @property
    def synced(self) -> int:
        """LeaderLog.synced."""
        return self._commit.synced

    @property
    def work(self) -> LogWork:
        """LeaderLog.work."""
        commit = self._commit
        errors = self._events.counts[StoreEventKind.UNREADABLE] + commit.syncs.timeouts.count + self._confirmation.late
        return commit.syncs.work.reported(errors)

    @property
    def recent(self) -> int:
        """LeaderLog.recent."""
        first = self._confirmation.recent.first
        return self.written if first < 0 else first

    @property
    def broken(self) -> Failure | None:
        """LeaderLog.broken."""
        return None if self._commit.closed else self._commit.faults.broken

    @property
    def full(self) -> Failure | None:
        """LeaderLog.full."""
        return self._commit.faults.full or self._admission.full

    def eras(self) -> list[Era]:
        """LeaderLog.eras."""
        return listed([*self._eras, Era(self.epoch, self.begin, self.incarnation)], self.written, self.first)

    def batch_before(self, position: int) -> BatchMark | None:
        """LeaderLog.batch_before."""
        return batch_before(self._segments, position)

    def read(self, position: int, size: int, proven: bool = True) -> bytes:
        """LeaderLog.read."""
        recent = self._confirmation.recent.read(position, size)
        if recent is not None:
            return recent[0] if len(recent) == 1 else b"".join(recent)
        if position >= self.written:
            return b""
        segment = self._segments.at(position)
        if segment is None:
            raise StoreError(f"the log does not have {position}: it begins at {self.first}", FOLDER)
        data = whole_batches(segment, position, segment.end, max(size, batch.HEADER_BYTES), proven)
        if not data:
            self._scrubs.suspects.add(position)
            name = file_name(FOLDER, segment.base)
            text = f"{name} cannot be replicated at byte {position - segment.base:,}: it is damaged, or records are lost"
            raise StoreError(text, name)
        return data

    def follow_progress(self, notified: Callable[[], None]) -> None:
        """LeaderLog.follow_progress."""
        self._confirmation.listeners.append(notified)

    def confirm(self, written: int, synced: int) -> None:
        """LeaderLog.confirm."""
        self._commit.confirm(written, synced)

    def note_epoch(self) -> None:
        """LeaderLog.note_epoch."""
        self._state.put([StateChange(SPACE, EPOCH_KEY, b"%d" % self.epoch)], None)

    def members(self, count: int, least: int) -> None:
        """LeaderLog.members."""
        self._confirmation.members(count, least)

    def when_ready(self, done: Callable[[], None]) -> None:
        """LeaderLog.when_ready."""
        self._commit.when_synced(done)

    def depose(self, failure: Failure) -> None:
        """LeaderLog.depose."""
        self._commit.depose(failure)
