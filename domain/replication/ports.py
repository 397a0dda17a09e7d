"""The log of a replica, as what replicates it sees it: in its life as a follower, and in its life as a leader.

open_follower --> FollowerLog --promote--> LeaderStore --close; open_follower--> FollowerLog ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from domain.errors import Failure, StoreError
from domain.message_store import MessageStore
from domain.replication.message import Era


class ReplicaDataError(StoreError):
    """Bytes that are no whole batches, not the next ones of the log, or damaged."""


class FollowerLog(Protocol):
    """A replica that follows, or waits for somebody to follow. It serves nobody.

    Nothing is applied to index and state above what `confirm` was told, so a cut never touches state.
    """

    @property
    def first(self) -> int:
        """Position of its first byte."""

    @property
    def written(self) -> int:
        """Position behind its last byte."""

    @property
    def behind(self) -> int:
        """Position behind its last whole batch; a filler may follow it."""

    @property
    def synced(self) -> int:
        """Position below which it is durable."""

    @property
    def applied(self) -> int:
        """Position below which index and state have it."""

    @property
    def incarnation(self) -> int:
        """Identity of the log, 1 to 2^63 - 1."""

    @property
    def continues(self) -> int:
        """Incarnation of the log all of whose flushed records this one has, after a power failure; 0: none."""

    @property
    def broken(self) -> Failure | None:
        """Why it takes nothing any more: its disk has failed; None while it works."""

    @property
    def foreign(self) -> bool:
        """True: the log was written before its node was a replica, and may be another one than the group's."""

    def registered(self) -> None:
        """The controllers know this log: a later one continues it, and not one before it. Raises OSError."""

    def eras(self) -> Sequence[Era]:
        """The eras of the log, ascending; that of epoch 0 only if it is not foreign."""

    def append(self, position: int, data: bytes) -> None:
        """Write bytes of the leader's log at `position`, which is `written`. Raises ReplicaDataError; a disk that fails breaks
        the log."""

    def sync(self, done: Callable[[], None]) -> None:
        """Make everything written before this call durable; then call `done`. Never called when the disk fails."""

    def confirm(self, position: int) -> None:
        """All members of the SyncStateSet have the log up to `position`: apply it, as far as it is there, in short turns."""

    def cut(self, position: int, done: Callable[[], None]) -> None:
        """Cut the log off at the end of a batch, durably; then call `done`. Raises ReplicaDataError below `applied`."""

    def begin_anew(self, first: int, incarnation: int) -> None:
        """Throw everything away, and begin an empty log at `first` under a new identity. Raises OSError."""

    def drop_before(self, first: int) -> None:
        """The leader keeps nothing before `first`: delete such segments, as soon as no checkpoint needs them."""

    def promote(self, epoch: int) -> LeaderStore:
        """Apply the rest of the log, all of which is durable, and lead in `epoch`. This object is not used any more. Raises
        StoreError."""

    def close(self) -> None:
        """Close the files."""


class LeaderLog(Protocol):
    """The log of a replica that leads."""

    @property
    def first(self) -> int:
        """Position of its first byte."""

    @property
    def written(self) -> int:
        """Position behind its last whole batch."""

    @property
    def synced(self) -> int:
        """Position below which it is durable."""

    @property
    def epoch(self) -> int:
        """Leader epoch."""

    @property
    def incarnation(self) -> int:
        """Identity of the log, 1 to 2^63 - 1."""

    @property
    def begin(self) -> int:
        """Where its log ended when it was promoted."""

    def eras(self) -> Sequence[Era]:
        """The eras of the log, ascending."""

    def read(self, position: int, size: int) -> bytes:
        """Whole batches and fillers from `position` on, `size` bytes or less, but one batch at least; b"" at the end.

        The newest bytes come from memory. Raises StoreError for damage, and for a position before `first`; OSError.
        """

    def follow_progress(self, told: Callable[[], None]) -> None:
        """Call `told` whenever `written` or `synced` has advanced, from now on."""

    def confirm(self, written: int, synced: int) -> None:
        """All members of the SyncStateSet have the log up to these positions."""

    def members(self, count: int, least: int) -> None:
        """The SyncStateSet has `count` members, and appends above `flushed` need `least`."""

    def when_ready(self, done: Callable[[], None]) -> None:
        """Call `done` once all members of the SyncStateSet have what the log held when it was promoted: clients are served from
        then on."""

    def depose(self, failure: Failure) -> None:
        """Somebody else leads: answer everything that waits with `failure`. The store is closed next."""


class LeaderStore(NamedTuple):
    """The open store of a replica that leads.

    store     its ports
    replica   its log
    """

    store: MessageStore
    replica: LeaderLog
