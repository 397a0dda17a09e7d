"""Work of a leader in its term: proposals, reads, changes of members, and the end of its leadership."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from controller.raft import quorum
from controller.raft.configuration import NODES_MAX
from controller.raft.entry import EntryKind, LogEntry
from controller.raft.message import AppendAnswer, HeartbeatAnswer, TimeoutNow
from controller.raft.ready import ReadConfirmed
from controller.raft.refusal import RaftRefusal
from controller.raft.replica import Replica
from controller.raft.replication import Replication


@dataclass(frozen=True, slots=True)
class ReadRound:
    """Reads that one round of heartbeats confirms.

    number    number of the round in this leader's term, from 1
    index     the commit index when the round began
    tickets   the reads
    """

    number: int
    index: int
    tickets: tuple[int, ...]


@final
class WaitingReads:
    """The reads of one leader in one term, until it knows that it still leads: read index (thesis section 6.4).

    number   the newest round; heartbeats carry it
    """

    def __init__(self) -> None:
        self.number = 0
        self._fresh: list[int] = []
        self._rounds: deque[ReadRound] = deque()
        self._count = 0

    def __len__(self) -> int:
        """Reads that wait."""
        return self._count

    @property
    def wanted(self) -> bool:
        """True when a read has come since the newest round."""
        return bool(self._fresh)

    def add(self, ticket: int) -> None:
        """A read has come; it takes part in the next round."""
        self._fresh.append(ticket)
        self._count += 1

    def begin(self, index: int) -> None:
        """Begin a round for all that came since the last one. `index`: the commit index, in the leader's own term."""
        self.number += 1
        self._rounds.append(ReadRound(self.number, index, tuple(self._fresh)))
        self._fresh.clear()

    def confirm(self, agreed: Callable[[int], bool]) -> list[ReadConfirmed]:
        """The reads of rounds that a majority has answered: `agreed(number)`."""
        confirmed: list[ReadConfirmed] = []
        while self._rounds and agreed(self._rounds[0].number):
            done = self._rounds.popleft()
            confirmed += [ReadConfirmed(ticket, done.index) for ticket in done.tickets]
        self._count -= len(confirmed)
        return confirmed

    def lose(self) -> list[int]:
        """All that wait: the leader has stepped down."""
        lost = [ticket for each in self._rounds for ticket in each.tickets] + self._fresh
        self._rounds.clear()
        self._fresh.clear()
        self._count = 0
        return lost


@final
class Leadership:
    """One leader in one term; removed when it steps down.

    confirmed     confirmed reads that are not handed out yet
    successor     the node to which the leadership is handed over, 0 for none
    over          True when the leader has to step down: no majority answers it, or it is no longer a member
    """

    def __init__(self, replica: Replica) -> None:
        """Begin to lead with an empty entry of the own term."""
        self._replica = replica
        self.replication = Replication(replica)
        self.reads = WaitingReads()
        self.confirmed: list[ReadConfirmed] = []
        self.successor = 0
        self.over = False
        self._ticks = 0
        self._handing_over = 0
        self._first = replica.make(EntryKind.EMPTY).index
        self._uncommitted_bytes = 0
        self.replication.broadcast()

    @property
    def has_committed(self) -> bool:
        """True when an entry of the own term is committed: then the commit index is not behind that of earlier leaders."""
        return self._replica.log.committed >= self._first

    def propose(self, data: bytes) -> LogEntry | RaftRefusal:
        """Append a command."""
        settings = self._replica.settings
        if self.successor:
            return RaftRefusal.TRANSFERRING
        if len(data) > settings.entry_bytes_max:
            return RaftRefusal.TOO_LARGE
        if self._uncommitted_bytes >= settings.uncommitted_bytes_max:
            return RaftRefusal.TOO_MANY
        return self._append(EntryKind.COMMAND, data)

    def read(self, ticket: int) -> RaftRefusal | None:
        """Let a read wait for its round."""
        if len(self.reads) >= self._replica.settings.reads_waiting_max:
            return RaftRefusal.TOO_MANY
        self.reads.add(ticket)
        return None

    def change(self, voters: frozenset[int], learners: frozenset[int]) -> LogEntry | RaftRefusal:
        """Begin a change to `voters` and `learners`: joint when the voters change, in one entry when only learners do.

        The second entry of a joint change follows by itself. See docs/decisions/0052-joint-consensus.md.
        """
        refusal = self._refuse_change(voters, learners)
        if refusal is not None:
            return refusal
        now = self._replica.configuration
        new = now.joint(voters, learners) if voters != now.voters else type(now)(voters, frozenset(), learners)
        return self._append(EntryKind.CONFIGURATION, new.encode())

    def transfer(self, to: int) -> RaftRefusal | None:
        """Begin to hand over to `to`; it is given up after election_ticks."""
        replica = self._replica
        if self.successor:
            return RaftRefusal.TRANSFERRING
        if to == replica.node or not replica.configuration.is_voter(to):
            return RaftRefusal.UNKNOWN_NODE
        self.successor, self._handing_over = to, 0
        self.replication.feed(to, news=self.replication.match(to) < replica.log.last)
        self._hand_over()
        return None

    def tick(self) -> None:
        """One tick: heartbeats, the check of the quorum, the end of a transfer that did not succeed."""
        settings = self._replica.settings
        self._ticks += 1
        if self._ticks % settings.heartbeat_ticks == 0:
            for progress in self.replication.followers.values():
                progress.tick()
            self.replication.heartbeat(self.reads.number)
        if self._ticks % settings.election_ticks == 0 and not self.replication.has_quorum():
            self.over = True
        if self.successor:
            self._handing_over += 1
            if self._handing_over >= settings.election_ticks:
                self.successor = 0

    def append_answered(self, answer: AppendAnswer) -> None:
        """A follower has answered entries or a snapshot."""
        if answer.sender in self.replication.followers:
            self.replication.answered(answer)
            self.advance()
            self._hand_over()

    def heartbeat_answered(self, answer: HeartbeatAnswer) -> None:
        """A follower has answered a heartbeat."""
        progress = self.replication.followers.get(answer.sender)
        if progress is not None:
            progress.round = max(progress.round, answer.round)
            self.replication.heard(answer.sender)
            self.confirm_reads()

    def begin_reads(self) -> None:
        """Begin a round for the new reads, once the commit index is known to be the group's."""
        if self.reads.wanted and self.has_committed:
            self.reads.begin(self._replica.log.committed)
            self.replication.heartbeat(self.reads.number)
            self.confirm_reads()

    def confirm_reads(self) -> None:
        """Confirm the rounds that a majority has answered: no newer leader was elected before they began."""
        self.confirmed += self.reads.confirm(self._agreed)

    def advance(self) -> None:
        """Commit all entries that a majority has, and act on the new commit index."""
        replica = self._replica
        before = replica.log.committed
        while not self.over and self.replication.commit():
            own = replica.log.between(max(before, self._first), replica.log.committed)
            self._uncommitted_bytes -= sum(entry.size for entry in own)
            before = replica.log.committed
            if replica.configurations.latest_index <= replica.log.committed:
                if replica.configuration.is_joint:
                    self._append(EntryKind.CONFIGURATION, replica.configuration.final().encode())
                elif not replica.configuration.is_voter(replica.node):
                    self.over = True  # it has led, without counting itself, until the change was committed (section 4.2.2)
            self.replication.broadcast()

    def _append(self, kind: EntryKind, data: bytes) -> LogEntry:
        entry = self._replica.make(kind, data)
        self._uncommitted_bytes += entry.size
        if kind is EntryKind.CONFIGURATION:
            self.replication.refresh()
        self.replication.broadcast()
        return entry

    def _agreed(self, number: int) -> bool:
        followers, own = self.replication.followers, self._replica.node
        return quorum.agreed(
            self._replica.configuration, lambda node: node == own or (node in followers and followers[node].round >= number)
        )

    def _hand_over(self) -> None:
        replica = self._replica
        if self.successor and self.replication.match(self.successor) == replica.log.last:
            replica.send(TimeoutNow(replica.node, self.successor, replica.term))

    def _refuse_change(self, voters: frozenset[int], learners: frozenset[int]) -> RaftRefusal | None:
        replica = self._replica
        now = replica.configuration
        if self.successor:
            return RaftRefusal.TRANSFERRING
        if now.is_joint or replica.configurations.latest_index > replica.log.committed:
            return RaftRefusal.CHANGE_UNDER_WAY
        if not self.has_committed:
            return RaftRefusal.TERM_NOT_COMMITTED
        if not voters or voters & learners or max(len(voters), len(learners)) > NODES_MAX or 0 in voters | learners:
            return RaftRefusal.INVALID_MEMBERS
        if (voters, learners) == (now.voters, now.learners):
            return RaftRefusal.INVALID_MEMBERS
        for node in sorted(voters - now.voters):
            if node not in now.learners:
                return RaftRefusal.UNKNOWN_NODE
            if replica.log.last - self.replication.match(node) > replica.settings.promotion_lag_max:
                return RaftRefusal.NOT_CAUGHT_UP
        return None
