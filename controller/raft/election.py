"""Elections: requests for votes, their answers, and the count (thesis sections 3.4, 3.6.1, 3.10, 4.2.3 and 9.6)."""

from __future__ import annotations

from typing import final

from controller.raft import quorum
from controller.raft.message import PreVoteAnswer, PreVoteRequest, VoteAnswer, VoteRequest
from controller.raft.quorum import VoteOutcome
from controller.raft.replica import RaftRole, Replica


@final
class Election:
    """Asks for votes and gives them, for one node.

        follower --patience ends--> pre-candidate --majority would vote--> candidate --majority votes--> (won)
                 --TimeoutNow------------------------------------------------^

    votes   node -> granted, of the election or pre-election under way
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.votes: dict[int, bool] = {}

    def ask(self) -> VoteOutcome:
        """Ask the voters whether they would vote for this node. It stays in its term, so that the question disturbs no node."""
        replica = self._replica
        replica.role, replica.leader = RaftRole.PRE_CANDIDATE, 0
        replica.rest()
        self.votes = {replica.node: True}
        for voter in self._others():
            replica.send(PreVoteRequest(replica.node, voter, replica.term, replica.log.last, replica.log.last_term))
        return self.outcome()

    def stand(self, transfer: bool = False) -> VoteOutcome:
        """Stand for election in the next term. `transfer`: the leader hands over."""
        replica = self._replica
        replica.term += 1
        replica.vote = replica.node
        replica.role, replica.leader = RaftRole.CANDIDATE, 0
        replica.rest()
        self.votes = {replica.node: True}
        for voter in self._others():
            replica.send(VoteRequest(replica.node, voter, replica.term, replica.log.last, replica.log.last_term, transfer))
        return self.outcome()

    def outcome(self) -> VoteOutcome:
        """Act on the outcome of the votes."""
        return quorum.outcome(self._replica.configuration, self.votes)

    def answer_pre_vote(self, request: PreVoteRequest) -> None:
        """Answer whether this node would vote, even if it is no voter in its own log: the candidate counts by its log."""
        replica = self._replica
        granted = (
            request.term >= replica.term
            and not replica.hears_leader
            and replica.log.is_up_to_date(request.last_index, request.last_term)
        )
        replica.send(PreVoteAnswer(replica.node, request.sender, replica.term, request.term + 1, granted))

    def answer_vote(self, request: VoteRequest) -> None:
        """Vote, in this node's own term, once: the vote is durable before the answer is sent."""
        replica = self._replica
        granted = self.may_vote(request)
        if granted:
            replica.vote = request.sender
            replica.rest()
        replica.send(VoteAnswer(replica.node, request.sender, replica.term, granted))

    def may_vote(self, request: VoteRequest) -> bool:
        """True when the vote of this term is free, or the candidate's already, and its log is good enough."""
        replica = self._replica
        free = replica.vote == request.sender or (replica.vote == 0 and replica.leader == 0)
        return free and replica.log.is_up_to_date(request.last_index, request.last_term)

    def count_pre_vote(self, answer: PreVoteAnswer) -> VoteOutcome:
        """Count an answer to `ask`; PENDING for an answer to an earlier one."""
        if self._replica.role is not RaftRole.PRE_CANDIDATE or answer.election != self._replica.term + 1:
            return VoteOutcome.PENDING
        self.votes.setdefault(answer.sender, answer.granted)
        return self.outcome()

    def count_vote(self, answer: VoteAnswer) -> VoteOutcome:
        """Count a vote of this term; PENDING when the election is over."""
        if self._replica.role is not RaftRole.CANDIDATE:
            return VoteOutcome.PENDING
        self.votes.setdefault(answer.sender, answer.granted)
        return self.outcome()

    def _others(self) -> list[int]:
        configuration, node = self._replica.configuration, self._replica.node
        return [each for each in configuration.nodes if configuration.is_voter(each) and each != node]
