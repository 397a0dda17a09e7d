"""What a node has to find again after a restart, and the port that keeps it (thesis section 3.8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from controller.raft.configuration import NOBODY, Configuration
from controller.raft.entry import LogEntry


class HardState(NamedTuple):
    """The part of a node's state that must never be forgotten.

    term   the newest term that the node has taken part in
    vote   the node that has its vote in `term`, 0 for none
    """

    term: int = 0
    vote: int = 0


@dataclass(frozen=True, slots=True)
class RaftSnapshot:
    """The state machine at one index, in place of the log up to there (thesis chapter 5).

    index           the last entry that is in it
    term            the term of that entry
    configuration   the configuration at that index: the entries that led to it are gone
    data            bytes of the state machine above; empty when nothing was applied to it
    """

    index: int = 0
    term: int = 0
    configuration: Configuration = NOBODY
    data: bytes = b""


class Persisted(NamedTuple):
    """What storage held when the node started.

    hard_state   term and vote
    snapshot     the newest snapshot; of index 0 on a node that waits to be told of a group
    entries      the log, ascending without a hole. It may begin before the end of the snapshot.
    damage       empty, or what of all this is damaged, for people. Such a node takes part in nothing: it may have forgotten
                 a vote or an entry that it confirmed. Storage has to say so at each start until the place is set aside.
    """

    hard_state: HardState = HardState()
    snapshot: RaftSnapshot = RaftSnapshot()
    entries: tuple[LogEntry, ...] = ()
    damage: str = ""


def founder(voters: frozenset[int]) -> Persisted:
    """What each of the first voters of a new group starts with. Each has to start with the same voters.

    It is a snapshot in the place of the first entry, of a state machine to which nothing was applied (empty `data`). A node
    that joins gets it as it would get any snapshot, and so the voters, which the entries do not tell.
    """
    return Persisted(snapshot=RaftSnapshot(1, 0, Configuration(voters)))


class RaftStorage(Protocol):
    """Where a node keeps what it must find again. The driver calls it; the state machine does not.

    Writes take effect in the order of the calls: after a power failure there may be the first of them without the last, never
    the last without the first. Nothing has to be durable before `sync` has returned, or `flush` has called back.
    All raise OSError.
    """

    def load(self) -> Persisted:
        """What is there. Damage is told in the result; a missing or unfinished end that no `sync` covered is not damage."""

    def put_hard_state(self, hard_state: HardState) -> None:
        """Replace term and vote."""

    def put_snapshot(self, snapshot: RaftSnapshot) -> None:
        """Replace the snapshot. Entries up to its index may be deleted after it is durable.

        When the entry at its index is missing or has another term, all entries are deleted.
        """

    def put_entries(self, entries: tuple[LogEntry, ...]) -> None:
        """Append; entries that are there already from the first one's index on are deleted first."""

    def sync(self) -> None:
        """Make all of this durable."""

    def flush(self, done: Callable[[OSError | None], None]) -> None:
        """Make all of this durable without waiting for the disk; then call `done`, with the error or None. Nothing is put, and
        nothing else is flushed, before that."""
