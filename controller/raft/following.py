"""Handling of the leader's messages by a follower (thesis sections 3.5, 5.3 and 6.4)."""

from __future__ import annotations

from controller.raft.configurations import Configurations
from controller.raft.message import (
    AppendAnswer,
    AppendRequest,
    HeartbeatAnswer,
    LeaderHeartbeat,
    RaftMessage,
    SnapshotRequest,
)
from controller.raft.replica import Replica


def append(replica: Replica, request: AppendRequest) -> None:
    """Take entries if the one before them is here, else answer with the index up to which the logs may be equal."""
    log = replica.log
    if request.previous_index < log.committed:
        _accept(replica, request, log.committed)  # the leader's log has all committed entries (leader completeness)
        return
    if log.term_at(request.previous_index) != request.previous_term:
        hint = log.equal_up_to(request.previous_index, request.previous_term)
        answer = AppendAnswer(
            replica.node, request.sender, replica.term, request.previous_index, True, hint, max(log.term_at(hint), 0)
        )
        replica.send(answer)
        return
    _take(replica, request)
    # The log may have entries behind these that the leader lacks: it is known to be equal only up to here.
    end = request.previous_index + len(request.entries)
    log.commit(min(request.commit, end))
    _accept(replica, request, end)


def heartbeat(replica: Replica, request: LeaderHeartbeat) -> None:
    """Take the commit index; answer for the round of reads."""
    replica.log.commit(request.commit)
    replica.send(HeartbeatAnswer(replica.node, request.sender, replica.term, request.round))


def install(replica: Replica, request: SnapshotRequest) -> None:
    """Replace the log by a snapshot, unless it is known here that the log has all of it."""
    log, snapshot = replica.log, request.snapshot
    if snapshot.index <= log.committed:
        _accept(replica, request, log.committed)
        return
    if log.term_at(snapshot.index) == snapshot.term:
        log.commit(snapshot.index)
    else:
        log.restore(snapshot)
        replica.configurations = Configurations(snapshot.index, snapshot.configuration)
    _accept(replica, request, snapshot.index)


def _take(replica: Replica, request: AppendRequest) -> None:
    """Append the missing entries. Entries are cut only where one of the leader's differs: a message may be old and short."""
    log = replica.log
    for at, entry in enumerate(request.entries):
        if log.term_at(entry.index) != entry.term:
            if entry.index <= log.last:
                log.truncate(entry.index)
                replica.configurations.truncate(entry.index)
            for new in request.entries[at:]:
                replica.append(new)
            return


def _accept(replica: Replica, request: RaftMessage, index: int) -> None:
    replica.send(AppendAnswer(replica.node, request.sender, replica.term, index))
