"""Messages, entries and Readies in words, for scripts and for the trace of a failed seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.raft.configuration import Configuration, decode
from controller.raft.entry import EntryKind, LogEntry
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
from controller.raft.ready import Ready


def configuration(value: Configuration) -> str:
    """`voters 1 2 3 outgoing 1 2 learners 4`; empty sets are left out."""
    sets = (("voters", value.voters), ("outgoing", value.outgoing), ("learners", value.learners))
    return " ".join(f"{name} {' '.join(map(str, sorted(nodes)))}" for name, nodes in sets if nodes) or "nobody"


def entry(value: LogEntry) -> str:
    """`term/index what`."""
    if value.kind is EntryKind.EMPTY:
        what = "empty"
    elif value.kind is EntryKind.COMMAND:
        what = value.data.decode()
    else:
        what = f"({configuration(decode(value.data))})"
    return f"{value.term}/{value.index} {what}"


def entries(values: Iterable[LogEntry]) -> str:
    """All of them in brackets."""
    return f"[{', '.join(map(entry, values))}]"


def message(value: RaftMessage) -> str:
    """One message in one line."""
    return f"{value.sender}->{value.to} term {value.term} {_content(value)}"


def _content(value: RaftMessage) -> str:
    match value:
        case PreVoteRequest():
            return f"pre-vote? last {value.last_term}/{value.last_index}"
        case PreVoteAnswer():
            return f"pre-vote {'yes' if value.granted else 'no'} for term {value.election}"
        case VoteRequest():
            return f"vote? last {value.last_term}/{value.last_index}{' transfer' if value.transfer else ''}"
        case VoteAnswer():
            return f"vote {'yes' if value.granted else 'no'}"
        case AppendRequest():
            more = f" {entries(value.entries)}" if value.entries else ""
            return f"append behind {value.previous_term}/{value.previous_index} commit {value.commit}{more}"
        case AppendAnswer():
            if value.rejected:
                return f"rejected {value.index}, equal to {value.hint_term}/{value.hint_index} perhaps"
            return f"accepted {value.index}"
        case LeaderHeartbeat():
            return f"heartbeat commit {value.commit} round {value.round}"
        case HeartbeatAnswer():
            return f"heard round {value.round}"
        case SnapshotRequest():
            place = f"{value.snapshot.term}/{value.snapshot.index}"
            return f"snapshot {place} ({configuration(value.snapshot.configuration)})"
        case TimeoutNow():
            return "stand now"
    raise ValueError(value)


def ready(value: Ready) -> Iterator[str]:
    """What a Ready holds, a line each."""
    if value.hard_state is not None:
        yield f"persist term {value.hard_state.term} vote {value.hard_state.vote}"
    if value.snapshot is not None:
        word = "restore" if value.restore else "compact"
        yield f"{word} {value.snapshot.term}/{value.snapshot.index} ({configuration(value.snapshot.configuration)})"
    if value.entries:
        yield f"append {entries(value.entries)}"
    yield from (f"send {message(each)}" for each in value.messages)
    if value.committed:
        yield f"apply {entries(value.committed)}"
    yield from (f"read {each.ticket} at {each.index}" for each in value.reads)
    yield from (f"read {each} lost" for each in value.lost_reads)
