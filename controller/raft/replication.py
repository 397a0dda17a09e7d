"""Replication of a leader's log, and the commitment of entries (thesis sections 3.5, 3.6.2 and 10.2.1)."""

from __future__ import annotations

from typing import final

from controller.raft import quorum
from controller.raft.message import AppendAnswer, AppendRequest, LeaderHeartbeat, SnapshotRequest
from controller.raft.progress import FollowerProgress
from controller.raft.replica import Replica


@final
class Replication:
    """The followers of one leader in one term.

    followers   node -> its progress, for all nodes of the configuration but the leader
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.followers: dict[int, FollowerProgress] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take the nodes of the newest configuration: new ones are probed, those that left get nothing more."""
        replica, known = self._replica, self.followers
        nodes = [node for node in replica.configuration.nodes if node != replica.node]
        self.followers = {node: known.get(node) or FollowerProgress(replica.log.last + 1, replica.settings) for node in nodes}

    def broadcast(self) -> None:
        """Send to all followers the entries and the commit index that they were not sent."""
        for node, progress in self.followers.items():
            self.feed(node, progress.notified < self._replica.log.committed)

    def feed(self, node: int, news: bool = False) -> None:
        """Send the missing entries to `node`, within its limits. `news`: send at least one message, even without entries."""
        replica, log, progress = self._replica, self._replica.log, self.followers[node]
        while not progress.paused and (news or progress.next <= log.last):
            previous = progress.next - 1
            term = log.term_at(previous)
            if term < 0:
                progress.sent_snapshot(log.snapshot.index)
                replica.send(SnapshotRequest(replica.node, node, replica.term, log.snapshot))
                return
            entries = log.from_index(progress.next, replica.settings.append_bytes_max)
            replica.send(AppendRequest(replica.node, node, replica.term, previous, term, entries, log.committed))
            progress.sent(entries, log.committed)
            news = False

    def heartbeat(self, read_round: int) -> None:
        """Send a heartbeat of the leader to all followers."""
        replica = self._replica
        for node, progress in self.followers.items():
            commit = min(progress.match, replica.log.committed)
            replica.send(LeaderHeartbeat(replica.node, node, replica.term, commit, read_round))

    def answered(self, answer: AppendAnswer) -> None:
        """Take the answer of a follower, and send the next entries."""
        progress = self.followers[answer.sender]
        progress.active = True
        if not answer.rejected:
            progress.accepted(answer.index)
            self.feed(answer.sender, news=progress.notified < self._replica.log.committed)
        elif progress.rejected(answer.index, self._replica.log.equal_up_to(answer.hint_index, answer.hint_term)):
            self.feed(answer.sender, news=True)

    def heard(self, node: int) -> None:
        """Send entries that may be lost again, after a follower's answer to a heartbeat."""
        progress = self.followers[node]
        progress.active = True
        progress.nudge()
        if progress.match < self._replica.log.last:
            self.feed(node, news=True)

    def match(self, node: int) -> int:
        """Highest index up to which the durable log of `node` equals the leader's, as far as is known."""
        if node == self._replica.node:
            return self._replica.log.stable  # not its last: its own write may be lost, too
        progress = self.followers.get(node)
        return 0 if progress is None else progress.match

    def commit(self) -> bool:
        """Commit the entries that a majority has. True when the commit index has risen."""
        log = self._replica.log
        index = min(quorum.replicated(self._replica.configuration, self.match), log.last)
        if index <= log.committed or not self.may_commit(index):
            return False
        log.commit(index)
        return True

    def may_commit(self, index: int) -> bool:
        """True for an entry of the leader's own term. One of an older term may be replaced, though a majority has it: it is
        committed by the first own one behind it (thesis section 3.6.2, figure 3.7).
        """
        return self._replica.log.term_at(index) == self._replica.term

    def has_quorum(self) -> bool:
        """True when a majority has answered since the last call."""
        own = self._replica.node
        active = {node for node, progress in self.followers.items() if progress.active} | {own}
        for progress in self.followers.values():
            progress.active = False
        return quorum.agreed(self._replica.configuration, lambda node: node in active)
