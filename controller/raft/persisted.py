"""Persistent state of a node, and the port that stores it (thesis section 3.8)."""

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

    index           index of the last entry in it
    configuration   the configuration at that index, whose entries are deleted
    data            bytes of the state machine above; empty when nothing was applied to it
    """

    index: int = 0
    term: int = 0
    configuration: Configuration = NOBODY
    data: bytes = b""


class Persisted(NamedTuple):
    """Content of storage at the start of the node.

    snapshot     the newest snapshot; of index 0 on a node that waits for a group
    entries      the log, ascending without a hole. It may begin before the end of the snapshot.
    damage       description of damage for the operator, "" for none. A damaged node takes part in nothing: it may have lost a
                 vote or an entry that it confirmed. Storage must report the damage at each start until it is set aside.
    is_later     True: `damage` is no damage, but says which later version has to be started. The node takes part in nothing.
    """

    hard_state: HardState = HardState()
    snapshot: RaftSnapshot = RaftSnapshot()
    entries: tuple[LogEntry, ...] = ()
    damage: str = ""
    is_later: bool = False


def founder(voters: frozenset[int]) -> Persisted:
    """Persistent state of each of the first voters of a new group, which must all start with the same voters.

    It is a snapshot at the index of the first entry, of an empty state machine (empty `data`). A node that joins gets it like
    any snapshot, and with it the voters, which are in no entry.
    """
    return Persisted(snapshot=RaftSnapshot(1, 0, Configuration(voters)))


class RaftStorage(Protocol):
    """Storage of the persistent state of a node. The driver calls it; the state machine does not.

    Writes take effect in the order of the calls: after a power failure the first of them may exist without the last, never
    the last without the first. Nothing has to be durable before `sync` has returned, or `flush` has called back.
    All raise OSError.
    """

    def load(self) -> Persisted:
        """Load the stored state. The result reports damage; a missing or unfinished end that no `sync` covered is no damage."""

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
