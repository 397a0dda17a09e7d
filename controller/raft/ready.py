"""Work for the driver of a node, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from controller.raft.entry import LogEntry
from controller.raft.message import RaftMessage
from controller.raft.persisted import HardState, RaftSnapshot


@dataclass(frozen=True, slots=True)
class ReadConfirmed:
    """A read that may be answered from the state machine after the committed entries of this Ready are applied.

    ticket   the caller's name for it
    index    the answer includes all entries committed up to here
    """

    ticket: int
    index: int


class Ready(NamedTuple):
    """A batch of work. The order is the driver's duty, and safety depends on it:

    1. persist hard_state, snapshot and entries, in this order, and sync when `must_sync`
    2. only then send the messages; losing some is allowed
    3. when `restore` is set, replace the state machine by the snapshot
    4. apply the entries of `committed`, in order
    5. answer the reads and the lost reads
    6. call `Raft.persisted()`; there is no further Ready before

    Messages and ticks may be given at any time between. After a crash all of a Ready may be lost, or the part behind any of its
    writes, as if the machine had stopped there. A driver that cannot persist must stop the node, or keep it paused
    until the same writes have succeeded.

    hard_state   term and vote to persist, None when they have not changed
    snapshot     snapshot to persist, None for none
    restore      True when `snapshot` came from the leader: the state machine is behind it
    entries      to append; stored entries from the index of the first one on are deleted before
    committed    entries to apply; each is handed out once, after a restart all from the snapshot on again
    lost_reads   tickets of reads that another leader has to answer, since this one has stepped down
    """

    hard_state: HardState | None
    snapshot: RaftSnapshot | None
    restore: bool
    entries: tuple[LogEntry, ...]
    messages: tuple[RaftMessage, ...]
    committed: tuple[LogEntry, ...]
    reads: tuple[ReadConfirmed, ...]
    lost_reads: tuple[int, ...]

    @property
    def must_sync(self) -> bool:
        """True when there is something to persist."""
        return self.hard_state is not None or self.snapshot is not None or bool(self.entries)
