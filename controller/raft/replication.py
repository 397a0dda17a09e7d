"""Replication of a leader's log, and the commitment of entries (thesis sections 3.5, 3.6.2 and 10.2.1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import final

from controller.raft import quorum
from controller.raft.entry import LogEntry
from controller.raft.message import AppendAnswer, AppendRequest, LeaderHeartbeat, SnapshotRequest
from controller.raft.replica import Replica
from controller.raft.settings import RaftSettings


class Replicating(Enum):
    """Mode of sending to a follower."""

    PROBE = "probe"
    """One message at a time: where the logs are equal is not known."""
    PIPELINE = "pipeline"
    """One message after the other, up to the limits, without waiting for answers."""
    SNAPSHOT = "snapshot"
    """Nothing until the snapshot has arrived."""


@final
class FollowerProgress:
    """One follower, at the leader.

        probe --accepted--> pipeline --rejected--> probe
        probe, pipeline --the entries are deleted--> snapshot --accepted, or no answer--> probe

    match       highest index up to which its durable log is known to equal the leader's
    next        first index to send
    active      True when it has answered since the last check of the quorum
    notified    commit index in the newest append message sent to it
    round       newest round of reads that it has answered
    snapshot    index of the snapshot that was sent and not answered, 0 for none
    waited      heartbeats sent since that snapshot
    """

    def __init__(self, next_index: int, settings: RaftSettings) -> None:
        self._settings = settings
        self.match = 0
        self.next = next_index
        self.state = Replicating.PROBE
        self.active = False
        self.notified = 0
        self.round = 0
        self.snapshot = 0
        self.waited = 0
        self._probed = False
        self._inflight: deque[tuple[int, int]] = deque()
        self._inflight_bytes = 0

    @property
    def paused(self) -> bool:
        """True when nothing may be sent until an answer has come."""
        if self.state is Replicating.PIPELINE:
            return self.is_full
        return self.state is Replicating.SNAPSHOT or self._probed

    @property
    def is_full(self) -> bool:
        """True when the limits of messages or bytes in flight are reached."""
        settings = self._settings
        return len(self._inflight) >= settings.inflight_messages_max or self._inflight_bytes >= settings.inflight_bytes_max

    @property
    def inflight(self) -> int:
        """Number of messages with entries that the follower has not answered yet."""
        return len(self._inflight)

    def sent(self, entries: Sequence[LogEntry], commit: int) -> None:
        """A message with `entries`, or none, and the commit index is on its way."""
        self.notified = commit
        if self.state is Replicating.PROBE:
            self._probed = True
        elif entries:
            size = sum(entry.size for entry in entries)
            self._inflight.append((entries[-1].index, size))
            self._inflight_bytes += size
            self.next = entries[-1].index + 1

    def sent_snapshot(self, index: int) -> None:
        """A snapshot that ends at `index` is on its way."""
        self._begin(Replicating.SNAPSHOT, index + 1)
        self.snapshot = index

    def accepted(self, index: int) -> None:
        """The follower's durable log is equal up to `index`; answers may be old."""
        self.match = max(self.match, index)
        while self._inflight and self._inflight[0][0] <= self.match:
            self._inflight_bytes -= self._inflight.popleft()[1]
        if self.state is Replicating.PROBE or (self.state is Replicating.SNAPSHOT and self.match >= self.snapshot):
            self._begin(Replicating.PIPELINE, self.match + 1)
        self.next = max(self.next, self.match + 1)

    def rejected(self, index: int, equal: int) -> bool:
        """The entry at `index` did not fit and the logs may be equal up to `equal`. False when the answer is old."""
        if self.state is Replicating.PIPELINE and index > self.match:
            self._begin(Replicating.PROBE, self.match + 1)
            return True
        if self.state is Replicating.PROBE and index == self.next - 1:
            self._probed = False
            self.next = max(min(index, equal + 1), self.match + 1)
            return True
        return False

    def nudge(self) -> None:
        """Allow one more message after the answer to a heartbeat: unanswered messages may be lost."""
        self._probed = False
        if self.state is Replicating.PIPELINE and self.is_full:
            self._inflight_bytes -= self._inflight.popleft()[1]

    def tick(self) -> None:
        """A heartbeat goes. A snapshot that is not answered for long is taken for lost."""
        if self.state is Replicating.SNAPSHOT:
            self.waited += 1
            if self.waited >= self._settings.election_ticks:
                self._begin(Replicating.PROBE, self.match + 1)

    def _begin(self, state: Replicating, next_index: int) -> None:
        self.state = state
        self.next = next_index
        self.snapshot = self.waited = 0
        self._probed = False
        self._inflight.clear()
        self._inflight_bytes = 0


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
