"""One node of a raft group, without clock, disk and network (Ongaro, Consensus: Bridging Theory and Practice, 2014)."""

from __future__ import annotations

from typing import final

from controller.raft import following
from controller.raft.election import Election
from controller.raft.entry import LogEntry
from controller.raft.leadership import Leadership
from controller.raft.message import (
    AppendAnswer,
    AppendRequest,
    HeartbeatAnswer,
    LeaderHeartbeat,
    PreVoteAnswer,
    PreVoteRequest,
    RaftMessage,
    SnapshotRequest,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from controller.raft.persisted import HardState, Persisted, RaftSnapshot
from controller.raft.quorum import VoteOutcome
from controller.raft.ready import ReadConfirmed, Ready
from controller.raft.refusal import RaftRefusal, SafetyError
from controller.raft.replica import RaftRole, Replica
from controller.raft.settings import RaftSettings
from domain.ports import Entropy


@final
class Raft:
    """The state machine of one node. Inputs change it; `take` returns the work for the driver (ready.py).

    Every method returns at once. A SafetyError of any method ends the node.

    node         identity of its log
    replica      the state of the node, to be read only
    leadership   progress of the followers, to be read only; None unless the node leads
    """

    def __init__(self, node: int, settings: RaftSettings, persisted: Persisted, entropy: Entropy) -> None:
        """Create the node as a waiting follower.

        node        identity of its log, above 0; a new log has another one
        entropy     randomness of the waits before elections
        Raises SafetyError for a log with a hole, ValueError for an unreadable configuration.
        """
        self.node = node
        self.replica = Replica(node, settings, persisted, entropy)
        self._election = Election(self.replica)
        self.leadership: Leadership | None = None
        self._durable = persisted.hard_state
        self._outstanding: HardState | None = None
        self._confirmed: list[ReadConfirmed] = []
        self._lost: list[int] = []

    def entries(self) -> tuple[LogEntry, ...]:
        """The entries behind the snapshot, for tools and tests."""
        return self.replica.log.behind(self.replica.log.snapshot.index)

    def tick(self) -> None:
        """A tick has passed."""
        replica = self.replica
        if self.leadership is not None:
            self.leadership.tick()
            self._settle()
            return
        replica.elapsed += 1
        if replica.elapsed >= replica.patience:
            self.campaign()

    def campaign(self) -> None:
        """Ask for an election now. No effect on a leader, and on a node that is damaged or no voter."""
        if self._is_eligible() and self._election.ask() is VoteOutcome.WON:
            self._stand()

    def parted(self, node: int) -> None:
        """The process of a node has ended its connection to this one. If that node leads and says nothing more, this one asks
        for an election sooner, and would vote sooner (RaftSettings.parted_ticks)."""
        replica = self.replica
        if replica.role is RaftRole.FOLLOWER and node == replica.leader and not replica.parted:
            replica.part()

    def receive(self, message: RaftMessage) -> None:
        """Take a message. Messages for another node are dropped, and all messages on a damaged one."""
        replica = self.replica
        if message.to != replica.node or replica.role is RaftRole.DAMAGED:
            return
        if isinstance(message, PreVoteRequest):
            self._election.answer_pre_vote(message)  # its term is that of no leader and no candidate
            return
        if message.term > replica.term:
            if isinstance(message, VoteRequest) and not message.transfer and replica.hears_leader:
                return
            self._follow(message.term, 0)
        elif message.term < replica.term and not isinstance(message, PreVoteAnswer):
            self._answer_old(message)
            return
        self._step(message)
        self._settle()

    def propose(self, data: bytes) -> LogEntry | RaftRefusal:
        """Append a command to the leader's log.

        Returns the entry. It is committed when an entry with its index and term is handed out, and never if another term has
        its index. If the node stops leading before, only the log shows the outcome.
        """
        return self._refusal if self.leadership is None else self.leadership.propose(data)

    def read(self, ticket: int) -> RaftRefusal | None:
        """Ask for a read that sees all that was committed before this call (linearizable).

        Returns None when it was taken: `ticket` comes out in `Ready.reads` or in `Ready.lost_reads`.
        """
        return self._refusal if self.leadership is None else self.leadership.read(ticket)

    def change(self, voters: frozenset[int], learners: frozenset[int] = frozenset()) -> LogEntry | RaftRefusal:
        """Begin a change of the members. A new voter is a learner before, and has caught up.

        Returns the first entry of the change; for a change of voters a second one follows when that is committed.
        """
        if self.leadership is None:
            return self._refusal
        entry = self.leadership.change(voters, learners)
        self._settle()
        return entry

    def transfer(self, to: int) -> RaftRefusal | None:
        """Begin to hand the leadership over to `to`. Proposals are refused until then, for election_ticks at most."""
        return self._refusal if self.leadership is None else self.leadership.transfer(to)

    def compact(self, index: int, data: bytes) -> bool:
        """Replace the log up to `index` by the state machine's bytes at `index`. False when a snapshot has that already.

        `index` is of an entry that was handed out. The bytes may come late, after further entries: the entries behind `index`
        stay, for followers that are a little behind. Raises ValueError for an entry that was not handed out.
        """
        log = self.replica.log
        if index > log.applied:
            raise ValueError(f"a snapshot at {index}, and {log.applied} is applied")
        if index <= log.snapshot.index:
            return False
        configuration = self.replica.configurations.at(index)
        self.replica.configurations.compact(index)
        log.compact(RaftSnapshot(index, log.term_at(index), configuration, data))
        return True

    def take(self) -> Ready | None:
        """Work for the driver; None when there is none, or when the last Ready is not finished (`persisted`)."""
        if self._outstanding is not None or self.replica.role is RaftRole.DAMAGED:
            return None
        if self.leadership is not None:
            self.leadership.begin_reads()
            self._confirmed += self.leadership.confirmed
            self.leadership.confirmed = []
        replica, log = self.replica, self.replica.log
        hard_state = replica.hard_state
        snapshot, restore = log.take_snapshot()
        entries = log.take_entries()
        committed = log.take_committed()
        reads = tuple(read for read in self._confirmed if read.index <= log.applied)
        self._confirmed = [read for read in self._confirmed if read.index > log.applied]
        messages, replica.outbox = tuple(replica.outbox), []
        lost, self._lost = tuple(self._lost), []
        changed = hard_state if hard_state != self._durable else None
        ready = Ready(changed, snapshot, restore, entries, messages, committed, reads, lost)
        if not any(ready):
            return None
        self._outstanding = hard_state
        return ready

    def persisted(self) -> None:
        """The last Ready is done."""
        if self._outstanding is None:
            raise ValueError("there is no Ready to finish")
        self._durable, self._outstanding = self._outstanding, None
        self.replica.log.persisted()
        if self.leadership is not None:
            self.leadership.advance()
            self._settle()

    @property
    def _refusal(self) -> RaftRefusal:
        return RaftRefusal.DAMAGED if self.replica.role is RaftRole.DAMAGED else RaftRefusal.NOT_LEADER

    def _is_eligible(self) -> bool:
        replica = self.replica
        other = replica.role not in (RaftRole.LEADER, RaftRole.DAMAGED)
        return other and replica.configurations.may_lead(replica.node, replica.log.committed)

    def _stand(self, transfer: bool = False) -> None:
        if self._election.stand(transfer) is VoteOutcome.WON:
            self._lead()

    def _lead(self) -> None:
        replica = self.replica
        replica.role, replica.leader = RaftRole.LEADER, replica.node
        self.leadership = Leadership(replica)

    def _follow(self, term: int, leader: int) -> None:
        if self.leadership is not None:
            self._confirmed += self.leadership.confirmed
            self._lost += self.leadership.reads.lose()
            self.leadership = None
        self.replica.follow(term, leader)

    def _settle(self) -> None:
        """Step down when the leadership is over."""
        if self.leadership is not None and self.leadership.over:
            self._follow(self.replica.term, 0)

    def _answer_old(self, message: RaftMessage) -> None:
        """Answer a request of an older term with the current term; drop answers."""
        replica = self.replica
        if isinstance(message, VoteRequest):
            replica.send(VoteAnswer(replica.node, message.sender, replica.term, False))
        elif isinstance(message, AppendRequest | SnapshotRequest):
            replica.send(AppendAnswer(replica.node, message.sender, replica.term, 0, True))
        elif isinstance(message, LeaderHeartbeat):
            replica.send(HeartbeatAnswer(replica.node, message.sender, replica.term, 0))

    def _step(self, message: RaftMessage) -> None:
        """Take a message of this node's term."""
        leadership = self.leadership
        if isinstance(message, AppendRequest | LeaderHeartbeat | SnapshotRequest):
            self._obey(message)
        elif isinstance(message, AppendAnswer):
            if leadership is not None:
                leadership.append_answered(message)
        elif isinstance(message, HeartbeatAnswer):
            if leadership is not None:
                leadership.heartbeat_answered(message)
        elif isinstance(message, VoteRequest):
            self._election.answer_vote(message)
        elif isinstance(message, VoteAnswer):
            self._counted(self._election.count_vote(message))
        elif isinstance(message, PreVoteAnswer):
            self._counted(self._election.count_pre_vote(message))
        elif isinstance(message, TimeoutNow) and message.sender == self.replica.leader and self._is_eligible():
            self._stand(transfer=True)

    def _obey(self, message: AppendRequest | LeaderHeartbeat | SnapshotRequest) -> None:
        replica = self.replica
        if replica.role is RaftRole.LEADER or replica.leader not in (0, message.sender):
            raise SafetyError(f"{message.sender} and {replica.leader} lead in term {replica.term}")
        self._follow(message.term, message.sender)
        if isinstance(message, AppendRequest):
            following.append(replica, message)
        elif isinstance(message, LeaderHeartbeat):
            following.heartbeat(replica, message)
        else:
            following.install(replica, message)

    def _counted(self, outcome: VoteOutcome) -> None:
        role = self.replica.role
        if outcome is VoteOutcome.LOST:
            self._follow(self.replica.term, 0)
        elif outcome is VoteOutcome.WON:
            if role is RaftRole.PRE_CANDIDATE:
                self._stand()
            else:
                self._lead()
