"""The log of a replica, as what replicates it sees it: in its life as a follower, and in its life as a leader.

open_follower --> FollowerLog --promote--> LeaderStore --close; open_follower--> FollowerLog ...

ReplicaLog has what both lives have; ReceivedLog is what the bytes of the leader go to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from domain.errors import Failure, StoreError
from domain.replication.message import Era, PartRefusal
from domain.replication.reads import FollowerReads
from domain.store.message_store import MessageStore


class ReplicaDataError(StoreError):
    """Bytes that are no whole batches, not the next ones of the log, or damaged."""


class UnknownFormatError(ReplicaDataError):
    """These bytes are of a format that only a later version of Headgate knows: to ask for them again is in vain."""


class PartRefusedError(StoreError):
    """A replica does not send the part of its log that another replica asks for."""

    def __init__(self, reason: PartRefusal) -> None:
        super().__init__(reason.value, "")
        self.reason = reason


class DamagedPart(NamedTuple):
    """A part of a log that is durable elsewhere and cannot be read here.

    begin   position of its first byte, where a batch or a filler begins
    end     position behind its last byte
    """

    begin: int
    end: int


class Mending(Protocol):
    """One damaged part on its way to be whole again: start -> add, add, ... -> finish, or abandon at any time.

    The bytes are written to a new file, which is synced and then takes the place of the damaged one: after a crash there is one
    or the other.
    """

    @property
    def position(self) -> int:
        """Where the next bytes belong."""

    @property
    def end(self) -> int:
        """Position behind the part. It may become lower while bytes are added: the rest is another part."""

    def start(self, ready: Callable[[Failure | None], None]) -> None:
        """Begin the new file; then call `ready`."""

    def add(self, data: bytes) -> None:
        """Whole batches and fillers from `position` on. Raises ReplicaDataError for what does not belong there, OSError."""

    def finish(self, done: Callable[[Failure | None], None]) -> None:
        """`position` is `end`: put the new file in its place, durably; then call `done`."""

    def abandon(self) -> None:
        """Leave the log as it is."""


class MendableLog(Protocol):
    """A log whose damaged parts can be replaced while it is in use."""

    def damaged(self) -> Sequence[DamagedPart]:
        """The parts that are known to be damaged and to be confirmed: other replicas have the same bytes there."""

    def mend(self, part: DamagedPart) -> Mending | None:
        """Begin to replace one; None: not now, try again later. One at a time."""

    def given_up(self, part: DamagedPart) -> None:
        """No other replica gives it, for now: readers do not wait for it."""

    def read_confirmed(self, position: int, end: int) -> bytes:
        """Whole batches and fillers from `position` on and below `end`, PART_BYTES_MAX or one of them, confirmed and checked.

        Raises PartRefusedError."""


class DamagedLog(Protocol):
    """A replica's log that cannot be opened, because what it has promised is damaged."""

    fault: StoreError

    @property
    def parts(self) -> MendableLog:
        """What other replicas have of it: the parts that its checkpoint says are confirmed."""

    def abandon_damaged(self, incarnation: int) -> str:
        """Keep what stands before the first damage, set the rest aside, and become another log, which has none of it promised.
        The folder that has the rest. Raises OSError."""

    def close(self) -> None:
        """Close the files; it can be opened again, or not."""


class BatchMark(NamedTuple):
    """One batch of a log.

    begin      position of its first byte
    end        position behind its last byte
    checksum   CRC-32 of its header and records, as stored in it
    """

    begin: int
    end: int
    checksum: int


class LogWork(NamedTuple):
    """Counters of a log since it was opened; its replica reports their increase between two heartbeats.

    syncs      syncs that have ended
    sync_ns    total time of these syncs
    since_ns   start of the sync in progress, monotonic; 0: none is in progress
    errors     reads that the disk has failed, and appends that were answered FLUSH_TIMEOUT
    """

    syncs: int = 0
    sync_ns: int = 0
    since_ns: int = 0
    errors: int = 0


class ReplicaLog(Protocol):
    """The log of a replica, whether it follows or leads."""

    @property
    def first(self) -> int:
        """Position of its first byte."""

    @property
    def written(self) -> int:
        """Position behind its last byte; of a leader, behind its last whole batch."""

    @property
    def synced(self) -> int:
        """Position below which it is durable."""

    @property
    def incarnation(self) -> int:
        """Identity of the log, 1 to 2^63 - 1."""

    @property
    def broken(self) -> Failure | None:
        """Why it takes nothing any more: its disk has failed; None while it works, and once a leader's store is closed."""

    @property
    def full(self) -> Failure | None:
        """Why it takes no messages: its volume has no room; None while it has. It notices itself when there is room again."""

    @property
    def parts(self) -> MendableLog:
        """Its damaged parts, and what it gives to others."""

    @property
    def work(self) -> LogWork:
        """What it has done."""

    def eras(self) -> Sequence[Era]:
        """The eras of the log, ascending; of one that is foreign, not that of epoch 0."""

    def batch_before(self, position: int) -> BatchMark | None:
        """The last batch that begins before `position`; None: there is none, or it cannot be read."""


class ReceivedLog(ReplicaLog, Protocol):
    """The log of a follower, for the receiver of the leader's bytes.

    Nothing above the position given to `confirm` is applied to index and state, so a cut never touches state.
    """

    @property
    def behind(self) -> int:
        """Position behind its last whole batch; a filler may follow it."""

    @property
    def applied(self) -> int:
        """Position below which index and state have it."""

    @property
    def has_room(self) -> bool:
        """True: its volume takes messages, as far as was seen within the last second; False also before the first look."""

    def append(self, position: int, data: bytes) -> None:
        """Write bytes of the leader's log at `position`, which is `written`. Raises ReplicaDataError; a disk that fails breaks
        the log."""

    def sync(self, done: Callable[[], None]) -> None:
        """Make everything written before this call durable; then call `done`. Never called when the disk fails."""

    def confirm(self, position: int) -> None:
        """All members of the SyncStateSet have the log up to `position`: apply it, as far as it is there, in short turns."""

    def cut(self, position: int, done: Callable[[], None]) -> None:
        """Cut the log off at the end of a batch, durably; then call `done`. The batches behind it are set aside: while there is
        no room for that, it waits. Raises ReplicaDataError below `applied`."""

    def drop_before(self, first: int) -> None:
        """The leader keeps nothing before `first`: delete such segments, as soon as no checkpoint needs them."""


class FollowerLog(ReceivedLog, Protocol):
    """A replica that follows, or waits for somebody to follow. It serves reads of what is confirmed."""

    @property
    def continues(self) -> int:
        """Incarnation of the log all of whose flushed records this one has, after a power failure; 0: none."""

    @property
    def foreign(self) -> bool:
        """True: the log was written before its node was a replica, and may be another one than the group's."""

    @property
    def reads(self) -> FollowerReads:
        """Reads of the log, valid until it is restarted, promoted, or closed."""

    def registered(self) -> None:
        """The controllers know this log: a later one continues it, and not one before it. Raises OSError."""

    @property
    def writer(self) -> int:
        """Incarnation of the log that wrote its last batch; 0: it has none, or one that does not say."""

    def restart_log(self, first: int, incarnation: int, behind: bool, done: Callable[[Exception | None], None]) -> None:
        """Set the log aside, and begin an empty one at `first` under a new identity; then call `done`, with the OSError or
        StoreError when that failed. `behind`: the leader had all of the log, and has deleted it by retention. Such a log is
        kept while there is room, and any other one until a person deletes it."""

    def end_checkpoints(self) -> None:
        """Write no more checkpoints before `promote`: the replica was elected, and applies from now on what is not confirmed.

        When another replica is elected meanwhile, a later life of this log is without that.
        """

    def promote(self, epoch: int) -> LeaderStore:
        """Apply the rest of the log, all of which is durable, and lead in `epoch`. This object is not used any more. Raises
        StoreError."""

    def close(self) -> None:
        """Close the files."""


class LeaderLog(ReplicaLog, Protocol):
    """The log of a replica that leads."""

    @property
    def epoch(self) -> int:
        """Leader epoch."""

    @property
    def begin(self) -> int:
        """Where its log ended when it was promoted."""

    @property
    def recent(self) -> int:
        """Position from which on the log is read from memory."""

    def read(self, position: int, size: int, proven: bool = True) -> bytes:
        """Whole batches and fillers from `position` on, `size` bytes or less, but one batch at least; b"" at the end.

        The newest bytes come from memory. `proven`: the checksums of what comes from the disk are computed, which costs more
        than all the rest. Raises StoreError for damage, and for a position before `first`; OSError.
        """

    def follow_progress(self, notified: Callable[[], None]) -> None:
        """Call `notified` whenever `written` or `synced` has advanced, from now on."""

    def confirm(self, written: int, synced: int) -> None:
        """Enough members of the SyncStateSet have the log up to these positions."""

    def note_epoch(self) -> None:
        """Append a record of this epoch, which no client has sent. Nothing is appended while the store takes no records."""

    def members(self, count: int, least: int) -> None:
        """The SyncStateSet has `count` members, and appends above `flushed` need `least`."""

    def when_ready(self, done: Callable[[], None]) -> None:
        """Call `done` once what the log held when it was promoted is confirmed: clients are served from then on."""

    def depose(self, failure: Failure) -> None:
        """Somebody else leads: answer everything that waits with `failure`. The store is closed next."""


class LeaderStore(NamedTuple):
    """The open store of a replica that leads."""

    store: MessageStore
    replica: LeaderLog
