"""What must be true of a group at every moment, checked against a naive model: one list of entries that were applied first.

Figure 3.2 of the thesis: election safety, log matching, leader completeness, state machine safety; and reads that are
linearizable, votes that are given once, snapshots that hold what the model holds.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.raft.configuration import Configuration, decode
from controller.raft.entry import EntryKind, LogEntry
from controller.raft.message import RaftMessage, VoteAnswer, VoteRequest
from controller.raft.raft import Raft
from controller.raft.ready import Ready
from controller.raft.replica import RaftRole
from tests.controller.raft.member import SEPARATOR
from tests.simulation.kit.bugs import HistoryError


class Applied(NamedTuple):
    """An entry of the model.

    entry           what the first node applied at this index
    term            that node's term then: the entry was committed in it or before
    commands        commands up to here
    configuration   the configuration at this index
    """

    entry: LogEntry
    term: int
    commands: int
    configuration: Configuration


class Checker:
    """The model and what is known of elections, votes and clients.

    applied   the model: applied[i] is the entry of index i + 1; the first stands for the snapshot that a group begins with
    floor     the highest index that a client has seen: as its own write or in what it read
    reads     number of reads that were checked, and `writes` of writes
    terms     number of terms that had a leader
    """

    def __init__(self, voters: frozenset[int]) -> None:
        founding = LogEntry(0, 1, EntryKind.EMPTY)
        self.applied = [Applied(founding, 0, 0, Configuration(voters))]
        self.commands: list[bytes] = []
        self.floor = 0
        self.reads = self.writes = 0
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}
        self._entries: dict[tuple[int, int], tuple[LogEntry, int]] = {}

    @property
    def terms(self) -> int:
        """Terms that had a leader."""
        return len(self._leaders)

    def stepped(self, raft: Raft) -> None:
        """A node has handled something: is it a leader that it may be?"""
        if raft.replica.role is not RaftRole.LEADER or self._leaders.get(raft.replica.term) == raft.node:
            return
        if self._leaders.setdefault(raft.replica.term, raft.node) != raft.node:
            raise HistoryError(f"{self._leaders[raft.replica.term]} and {raft.node} lead in term {raft.replica.term}")
        log = {entry.index: entry.term for entry in raft.entries()}
        first = raft.replica.log.last - len(log) + 1
        for index in range(first, len(self.applied) + 1):
            known = self.applied[index - 1]
            if known.term < raft.replica.term and log.get(index) != known.entry.term:
                raise HistoryError(f"{raft.node} leads in term {raft.replica.term} without entry {known.entry.term}/{index}")

    def persists(self, raft: Raft, ready: Ready) -> None:
        """A node writes: are its entries those of other nodes, and is its snapshot that of the model?"""
        held = raft.entries() if ready.entries else ()
        first = held[0].index if held else 0
        for entry in ready.entries:
            at = entry.index - 1 - first
            before = held[at].term if at >= 0 else -1
            known, previous = self._entries.setdefault((entry.index, entry.term), (entry, before))
            if known != entry:
                raise HistoryError(f"two entries {entry.term}/{entry.index}")
            if before >= 0 and previous >= 0 and before != previous:
                raise HistoryError(f"before entry {entry.term}/{entry.index} are entries of terms {before} and {previous}")
            if previous < 0 <= before:
                self._entries[entry.index, entry.term] = (entry, before)
        snapshot = ready.snapshot
        if snapshot is not None:
            commands = snapshot.data.split(SEPARATOR) if snapshot.data else []
            if snapshot.index > len(self.applied):
                raise HistoryError(f"a snapshot at {snapshot.index} is ahead of all that was applied")
            known_there = self.applied[snapshot.index - 1]
            if snapshot.term != known_there.entry.term or commands != self.commands[: known_there.commands]:
                raise HistoryError(f"the snapshot at {snapshot.index} is another than the log there")
            if snapshot.configuration != known_there.configuration:
                raise HistoryError(f"the snapshot at {snapshot.index} has other members than the log there")

    def sends(self, message: RaftMessage) -> None:
        """A node sends: has it given its vote to another one in this term?"""
        if isinstance(message, VoteAnswer) and message.granted:
            self._votes_for(message.sender, message.term, message.to)
        elif isinstance(message, VoteRequest):
            self._votes_for(message.sender, message.term, message.sender)

    def applies(self, raft: Raft, entry: LogEntry) -> None:
        """A node applies an entry: is it that of the others?"""
        if entry.index <= len(self.applied):
            known = self.applied[entry.index - 1].entry
            if known != entry:
                raise HistoryError(f"{raft.node} applies {entry.term}/{entry.index}, others {known.term}/{known.index}")
            return
        if entry.index != len(self.applied) + 1:
            raise HistoryError(f"{raft.node} applies entry {entry.index}, and nobody {len(self.applied) + 1}")
        configuration = self.applied[-1].configuration
        if entry.kind is EntryKind.COMMAND:
            self.commands.append(entry.data)
        elif entry.kind is EntryKind.CONFIGURATION:
            configuration = decode(entry.data)
        self.applied.append(Applied(entry, raft.replica.term, len(self.commands), configuration))

    def wrote(self, index: int, floor: int) -> None:
        """A client's write was answered; `floor` was known when it began."""
        if index <= floor:
            raise HistoryError(f"a write is at {index}, and began when {floor} had been seen")
        self.floor = max(self.floor, index)
        self.writes += 1

    def read(self, index: int, state: list[bytes], floor: int) -> None:
        """A client's read was answered with `state` at `index`; `floor` was known when it began."""
        if index < floor:
            raise HistoryError(f"a read saw {index}, and began when {floor} had been seen")
        count = self.applied[index - 1].commands
        if state != self.commands[:count]:
            raise HistoryError(f"a read at {index} saw what was never there")
        self.floor = max(self.floor, index)
        self.reads += 1

    def _votes_for(self, node: int, term: int, candidate: int) -> None:
        known = self._votes.setdefault((node, term), candidate)
        if known != candidate:
            raise HistoryError(f"{node} votes for {known} and {candidate} in term {term}")
