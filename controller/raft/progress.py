"""Progress of one follower at its leader, and the limits of messages to it (thesis section 10.2.1 on pipelines)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import final

from controller.raft.entry import LogEntry
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
        """Messages with entries that are not answered."""
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
