"""The log of a node in memory: the snapshot, the entries behind it, and their durable, committed and handed out indices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from controller.raft.entry import LogEntry
from controller.raft.persisted import Persisted, RaftSnapshot
from controller.raft.refusal import SafetyError


@final
class RaftLog:
    """Entries without a hole from the end of the snapshot on.

    Invariant: snapshot.index <= applied <= committed <= last, and applied <= handed: entries given to the state machine are
    given to storage with them or before.

    snapshot    the newest snapshot, which the entries follow
    committed   highest index known to be committed; not durable, since the leader sends it again
    applied     highest index that was given to the state machine
    stable      highest durable index
    restored    True when the snapshot came from a leader and the state machine does not have it yet
    """

    def __init__(self, persisted: Persisted) -> None:
        """The log as storage has it. Raises SafetyError for a hole between snapshot and entries."""
        self.snapshot = persisted.snapshot
        self._entries = list(_behind(persisted.snapshot, persisted.entries))
        self.committed = self.applied = self.snapshot.index
        self.stable = self._handed = self._in_flight = self.last
        self.restored = False
        self._snapshot_to_persist = False

    @property
    def last(self) -> int:
        """Index of the last entry, of the snapshot when there is none behind it."""
        return self.snapshot.index + len(self._entries)

    @property
    def last_term(self) -> int:
        """Term of the last entry."""
        return self._entries[-1].term if self._entries else self.snapshot.term

    def term_at(self, index: int) -> int:
        """The term of the entry at `index`; -1 when it is not known: behind the end, or inside the snapshot."""
        at = index - self.snapshot.index
        if at == 0:
            return self.snapshot.term
        return self._entries[at - 1].term if 0 < at <= len(self._entries) else -1

    def is_up_to_date(self, last_index: int, last_term: int) -> bool:
        """True when a log that ends so has a newer last term, or the same and is no shorter (thesis section 3.6.1)."""
        return (last_term, last_index) >= (self.last_term, self.last)

    def from_index(self, index: int, bytes_max: int) -> tuple[LogEntry, ...]:
        """Entries from `index` on, of `bytes_max` together, but one at least when there is one."""
        taken: list[LogEntry] = []
        size = 0
        for at in range(index - self.snapshot.index - 1, len(self._entries)):
            entry = self._entries[at]
            size += entry.size
            if taken and size > bytes_max:
                break
            taken.append(entry)
        return tuple(taken)

    def behind(self, index: int) -> tuple[LogEntry, ...]:
        """All entries behind `index`, which is not inside the snapshot."""
        return tuple(self._entries[index - self.snapshot.index :])

    def between(self, index: int, end: int) -> tuple[LogEntry, ...]:
        """The entries behind `index` up to `end`; neither is inside the snapshot. Empty when `end` is not above `index`."""
        return tuple(self._entries[index - self.snapshot.index : max(end - self.snapshot.index, 0)])

    def equal_up_to(self, index: int, term: int) -> int:
        """Highest index, at most `index`, whose entry may be in a log with an entry of `term` at `index`.

        Terms ascend in every log, so entries here with a higher term are not in the other one. Not before the snapshot.
        """
        index = min(index, self.last)
        while index > self.snapshot.index and self.term_at(index) > term:
            index -= 1
        return index

    def append(self, entry: LogEntry) -> None:
        """Add an entry at the end."""
        if entry.index != self.last + 1:
            raise SafetyError(f"entry {entry.index} behind {self.last}")
        self._entries.append(entry)

    def truncate(self, index: int) -> None:
        """Cut the entries from `index` on, because the leader has others. Raises SafetyError for committed ones."""
        if index <= self.committed:
            raise SafetyError(f"entry {index} is committed up to {self.committed} and the leader has another")
        del self._entries[index - self.snapshot.index - 1 :]
        self._handed = min(self._handed, index - 1)
        self._in_flight = min(self._in_flight, index - 1)
        self.stable = min(self.stable, index - 1)

    def commit(self, index: int) -> None:
        """Entries up to `index` are committed; no effect when that is known. Raises SafetyError beyond the end."""
        if index > self.last:
            raise SafetyError(f"committed up to {index} and the log ends at {self.last}")
        self.committed = max(self.committed, index)

    def compact(self, snapshot: RaftSnapshot) -> None:
        """Put `snapshot`, made from the state machine here, in place of the entries up to its index."""
        del self._entries[: snapshot.index - self.snapshot.index]
        self.snapshot = snapshot
        self._snapshot_to_persist = True
        self._not_before(snapshot.index)

    def restore(self, snapshot: RaftSnapshot) -> None:
        """Put the leader's `snapshot` in place of all that is here."""
        self._entries.clear()
        self.snapshot = snapshot
        self._snapshot_to_persist = self.restored = True
        self.committed = self.applied = snapshot.index
        self._handed = self._in_flight = self.stable = snapshot.index

    def take_snapshot(self) -> tuple[RaftSnapshot | None, bool]:
        """(snapshot to persist or None, True when it has to replace the state machine)."""
        taken = (self.snapshot if self._snapshot_to_persist else None, self.restored)
        self._snapshot_to_persist = self.restored = False
        return taken

    def take_entries(self) -> tuple[LogEntry, ...]:
        """Entries that storage was not given yet."""
        taken = self.behind(self._handed)
        self._handed = self._in_flight = self.last
        return taken

    def take_committed(self) -> tuple[LogEntry, ...]:
        """Committed entries that the state machine was not given yet; all of them were given to storage."""
        end = min(self.committed, self._handed)
        taken = self.between(self.applied, end)
        self.applied = max(self.applied, end)
        return taken

    def persisted(self) -> None:
        """Mark the entries last returned by `take_entries` as durable, except those cut since."""
        self.stable = max(self.stable, self._in_flight)

    def _not_before(self, index: int) -> None:
        self._handed = max(self._handed, index)
        self._in_flight = max(self._in_flight, index)
        self.stable = max(self.stable, index)


def _behind(snapshot: RaftSnapshot, entries: Iterable[LogEntry]) -> Iterable[LogEntry]:
    """The entries that follow `snapshot`. None when the entry at its end is another: the snapshot came from a leader.

    Raises SafetyError for a hole.
    """
    kept: list[LogEntry] = []
    end = snapshot.index
    for entry in entries:
        if entry.index == snapshot.index and entry.term != snapshot.term:
            return ()
        if entry.index > snapshot.index:
            end += 1
            if entry.index != end:
                raise SafetyError(f"entry {entry.index} in the place of {end}")
            kept.append(entry)
    return kept
