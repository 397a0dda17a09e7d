"""The configurations in a node's log: the newest one holds, committed or not, and goes with its entry when that is cut."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from controller.raft.configuration import Configuration, decode
from controller.raft.entry import EntryKind, LogEntry


@final
class Configurations:
    """The configuration at the snapshot and those of the entries behind it.

    Invariant: indexes ascend, and the first is that of the snapshot.
    """

    def __init__(self, index: int, configuration: Configuration, entries: Iterable[LogEntry] = ()) -> None:
        """`configuration` holds at `index`, the end of the snapshot; `entries` are the log behind it."""
        self._known = [(index, configuration)]
        for entry in entries:
            self.append(entry)

    @property
    def latest(self) -> Configuration:
        """The configuration that holds for this node now (thesis section 4.1)."""
        return self._known[-1][1]

    @property
    def latest_index(self) -> int:
        """Index of the entry that has it, or of the snapshot."""
        return self._known[-1][0]

    def at(self, index: int) -> Configuration:
        """The configuration at `index`, which is not before the snapshot's."""
        return next(configuration for place, configuration in reversed(self._known) if place <= index)

    def may_lead(self, node: int, committed: int) -> bool:
        """True when `node` votes by the newest configuration, or by one that may come back, since no newer one is committed.

        Until the change is committed a node that it removes may be the only one with a log that others vote for
        (thesis section 4.2.2).
        """
        return any(
            configuration.is_voter(node)
            for at, (_, configuration) in enumerate(self._known)
            if at + 1 == len(self._known) or self._known[at + 1][0] > committed
        )

    def append(self, entry: LogEntry) -> None:
        """Take note of an entry that was appended. Raises ValueError for a configuration that cannot be read."""
        if entry.kind is EntryKind.CONFIGURATION:
            self._known.append((entry.index, decode(entry.data)))

    def truncate(self, index: int) -> None:
        """Return to the configuration before `index`, from which on the entries are cut."""
        while self._known[-1][0] >= index and len(self._known) > 1:
            self._known.pop()

    def compact(self, index: int) -> None:
        """The entries up to `index` are in a snapshot now."""
        latest = self.at(index)
        self._known = [(index, latest), *((place, each) for place, each in self._known if place > index)]
