"""State of a node of a group, in any role."""

from __future__ import annotations

from enum import Enum
from typing import final

from controller.raft.configuration import Configuration
from controller.raft.configurations import Configurations
from controller.raft.entry import EntryKind, LogEntry
from controller.raft.log import RaftLog
from controller.raft.message import RaftMessage
from controller.raft.persisted import HardState, Persisted
from controller.raft.settings import RaftSettings
from domain.ports import Entropy


class RaftRole(Enum):
    """Role of a node. The configuration, not the role, makes it a voter or a learner."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"
    DAMAGED = "damaged"
    """Takes part in nothing. It may have forgotten a vote, or an entry that it confirmed, so no majority may count it again."""


@final
class Replica:
    """The state that elections, followers and leaders share.

    node             identity of this node's log
    term, vote       the HardState in memory; the durable one is behind it by one Ready
    leader           the leader of `term`, 0 when unknown
    log              its entries; `log.committed` and `log.last` are indexes
    elapsed          ticks since the last message of the leader, or since the last campaign
    patience         random number of ticks after which the node stands for election
    parted           True: the leader's process has ended its connection to this node, and has said nothing since
    """

    def __init__(self, node: int, settings: RaftSettings, persisted: Persisted, entropy: Entropy) -> None:
        """The node as it starts. Raises SafetyError for a log with a hole, ValueError for a bad configuration."""
        self.node = node
        self.settings = settings
        self.entropy = entropy
        self.log = RaftLog(persisted)
        # Entries may be durable that came with a newer term, and not the term: then nothing was sent in it from here.
        self.term = max(persisted.hard_state.term, self.log.last_term)
        self.vote = persisted.hard_state.vote if self.term == persisted.hard_state.term else 0
        snapshot = self.log.snapshot
        self.configurations = Configurations(snapshot.index, snapshot.configuration, self.log.behind(snapshot.index))
        self.role = RaftRole.DAMAGED if persisted.damage else RaftRole.FOLLOWER
        self.leader = 0
        self.outbox: list[RaftMessage] = []
        self.elapsed = 0
        self.patience = 0
        self.parted = False
        self.rest()

    @property
    def hard_state(self) -> HardState:
        """Term and vote."""
        return HardState(self.term, self.vote)

    @property
    def configuration(self) -> Configuration:
        """The configuration that holds for this node."""
        return self.configurations.latest

    @property
    def hears_leader(self) -> bool:
        """True while a leader is alive: no election is granted then, unless the leader hands over (thesis section 4.2.3)."""
        ticks = self.settings.parted_ticks if self.parted else self.settings.election_ticks
        return self.role is RaftRole.LEADER or (self.leader != 0 and self.elapsed < ticks)

    def send(self, message: RaftMessage) -> None:
        """Put a message into the next Ready."""
        self.outbox.append(message)

    def rest(self) -> None:
        """Restart the wait for a leader, with a random length (thesis section 3.4)."""
        self.elapsed = 0
        self.parted = False
        ticks = self.settings.election_ticks
        self.patience = ticks + int(self.entropy.random() * ticks)

    def part(self) -> None:
        """The leader's process has ended its connection to this node: a process that dies does, and a slow one does not. The
        wait becomes short, from the leader's last message on; its next message ends that."""
        self.parted = True
        voters = (each for each in self.configuration.nodes if self.configuration.is_voter(each) and each != self.leader)
        earlier = sum(each < self.node for each in voters)
        self.patience = min(self.patience, self.settings.parted_ticks + 1 + 2 * earlier)

    def follow(self, term: int, leader: int) -> None:
        """Become a follower in `term`, of `leader` (0: not known yet). A new term clears the vote."""
        if term != self.term:
            self.term, self.vote = term, 0
        self.role = RaftRole.FOLLOWER
        self.leader = leader
        self.rest()

    def append(self, entry: LogEntry) -> None:
        """Add an entry, of a leader or of its own as the leader, at the end of the log."""
        self.log.append(entry)
        self.configurations.append(entry)

    def make(self, kind: EntryKind, data: bytes = b"") -> LogEntry:
        """Append an entry of this leader."""
        entry = LogEntry(self.term, self.log.last + 1, kind, data)
        self.append(entry)
        return entry
