"""Messages between the nodes of a group. They may be lost, repeated, delayed and reordered.

Every message has its sender, its receiver, and the sender's term. A node drops messages for another receiver: a new log has a
new identity, and does not answer for the previous one.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.raft.entry import LogEntry
from controller.raft.persisted import RaftSnapshot


@dataclass(frozen=True, slots=True)
class RaftMessage:
    """Common fields of all messages.

    term     the sender's term at the creation of the message
    """

    sender: int
    to: int
    term: int


@dataclass(frozen=True, slots=True)
class PreVoteRequest(RaftMessage):
    """Question whether a vote in `term + 1` would be granted (thesis section 9.6). Changes nothing at the receiver.

    last_index   index of the sender's last entry
    """

    last_index: int
    last_term: int


@dataclass(frozen=True, slots=True)
class PreVoteAnswer(RaftMessage):
    """Answers a PreVoteRequest.

    election   the term that the vote would be in
    """

    election: int
    granted: bool


@dataclass(frozen=True, slots=True)
class VoteRequest(RaftMessage):
    """Asks for a vote in `term` (thesis section 3.4).

    last_index   index of the candidate's last entry
    transfer     True when the leader has handed over (thesis section 3.10): voters with a live leader answer too
    """

    last_index: int
    last_term: int
    transfer: bool = False


@dataclass(frozen=True, slots=True)
class VoteAnswer(RaftMessage):
    """Answers a VoteRequest.

    granted   whether the sender's vote in `term` is the candidate's
    """

    granted: bool


@dataclass(frozen=True, slots=True)
class AppendRequest(RaftMessage):
    """Entries of the leader's log, none for a probe or for news of a commit (thesis section 3.5).

    previous_index   index of the entry before the first
    entries          ascending, from previous_index + 1 on
    """

    previous_index: int
    previous_term: int
    entries: tuple[LogEntry, ...]
    commit: int


@dataclass(frozen=True, slots=True)
class AppendAnswer(RaftMessage):
    """Answers an AppendRequest or a SnapshotRequest; sent after what it confirms is durable.

    index        accepted: the sender's log equals the leader's up to here; rejected: the `previous_index` that did not fit
    rejected     True when the entry before the first was missing or another
    hint_index   rejected: the highest index at which the logs may be equal
    hint_term    rejected: the term of the sender's entry there
    """

    index: int
    rejected: bool = False
    hint_index: int = 0
    hint_term: int = 0


@dataclass(frozen=True, slots=True)
class LeaderHeartbeat(RaftMessage):
    """Sign of life of the leader.

    commit   commit index as far as the leader knows the follower's log to be equal
    round    number of the newest round of reads that waits for confirmation (thesis section 6.4), counted in this term
    """

    commit: int
    round: int


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer(RaftMessage):
    """Answers a LeaderHeartbeat."""

    round: int


@dataclass(frozen=True, slots=True)
class SnapshotRequest(RaftMessage):
    """A snapshot for a follower that needs entries which the leader no longer has (thesis section 5.3).

    snapshot   the leader's newest, whole; the transport splits it
    """

    snapshot: RaftSnapshot


@dataclass(frozen=True, slots=True)
class TimeoutNow(RaftMessage):
    """Request to the follower that takes over to stand for election at once (thesis section 3.10)."""
