"""Raft messages as bytes.

    1   version, 1
    1   kind, the place of the class in KINDS
    8   sender
    8   to
    8   term
    …   the fields of the kind, in their order: numbers of 8 bytes, truth values of 1 byte

An AppendRequest ends with its entries: a count of 4 bytes, then for each term (8), index (8), kind (1), length (4) and data. A
SnapshotRequest has index (8), term (8), the length of the configuration (4), the configuration, and the state machine's bytes
up to the end. All numbers are big-endian.
"""

from __future__ import annotations

import struct
from typing import Final

from controller.raft import configuration
from controller.raft.entry import LogEntry, kind_of
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
from controller.raft.persisted import RaftSnapshot

VERSION: Final = 1
KINDS: Final = (
    PreVoteRequest, PreVoteAnswer, VoteRequest, VoteAnswer, AppendRequest, AppendAnswer, LeaderHeartbeat, HeartbeatAnswer,
    SnapshotRequest, TimeoutNow,
)  # fmt: skip
_HEAD: Final = struct.Struct(">BBQQQ")
_ENTRY: Final = struct.Struct(">QQBI")
_APPEND: Final = struct.Struct(">QQQI")
_SNAPSHOT: Final = struct.Struct(">QQI")
_PLAIN: Final[dict[type[RaftMessage], tuple[struct.Struct, tuple[str, ...]]]] = {
    PreVoteRequest: (struct.Struct(">QQ"), ("last_index", "last_term")),
    PreVoteAnswer: (struct.Struct(">Q?"), ("election", "granted")),
    VoteRequest: (struct.Struct(">QQ?"), ("last_index", "last_term", "transfer")),
    VoteAnswer: (struct.Struct(">?"), ("granted",)),
    AppendAnswer: (struct.Struct(">Q?QQ"), ("index", "rejected", "hint_index", "hint_term")),
    LeaderHeartbeat: (struct.Struct(">QQ"), ("commit", "round")),
    HeartbeatAnswer: (struct.Struct(">Q"), ("round",)),
    TimeoutNow: (struct.Struct(">"), ()),
}


def encode(message: RaftMessage) -> bytes:
    """The bytes of a message."""
    head = _HEAD.pack(VERSION, KINDS.index(type(message)), message.sender, message.to, message.term)
    if isinstance(message, AppendRequest):
        entries = message.entries
        parts = [head, _APPEND.pack(message.previous_index, message.previous_term, message.commit, len(entries))]
        for entry in entries:
            parts += (_ENTRY.pack(entry.term, entry.index, entry.kind, len(entry.data)), entry.data)
        return b"".join(parts)
    if isinstance(message, SnapshotRequest):
        snapshot = message.snapshot
        members = snapshot.configuration.encode()
        return b"".join((head, _SNAPSHOT.pack(snapshot.index, snapshot.term, len(members)), members, snapshot.data))
    layout, names = _PLAIN[type(message)]
    return head + layout.pack(*[getattr(message, name) for name in names])


def decode(data: bytes) -> RaftMessage:
    """The message that `encode` wrote. Raises ValueError for anything else, LaterVersionError for a later version's."""
    try:
        version, kind, sender, to, term = _HEAD.unpack_from(data)
        if version != VERSION or kind >= len(KINDS):
            raise ValueError(f"a raft message of version {version} and kind {kind}")
        made = KINDS[kind]
        if made is AppendRequest:
            return _append_request(data, sender, to, term)
        if made is SnapshotRequest:
            return SnapshotRequest(sender, to, term, _snapshot(data))
        return made(sender, to, term, *_PLAIN[made][0].unpack(data[_HEAD.size :]))
    except struct.error as error:
        raise ValueError(f"a raft message of {len(data)} bytes ends too early, or goes on") from error


def _append_request(data: bytes, sender: int, to: int, term: int) -> AppendRequest:
    previous_index, previous_term, commit, count = _APPEND.unpack_from(data, _HEAD.size)
    at = _HEAD.size + _APPEND.size
    if count > (len(data) - at) // _ENTRY.size:
        raise ValueError(f"{count} entries in {len(data)} bytes")
    entries: list[LogEntry] = []
    for number in range(count):
        entry_term, index, kind, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        body = data[at : at + size]
        at += size
        if len(body) != size:
            raise ValueError(f"entry {index} has {len(body)} of its {size} bytes")
        if index != previous_index + 1 + number:
            raise ValueError(f"entry {index} in the place of {previous_index + 1 + number}")
        entries.append(LogEntry(entry_term, index, kind_of(kind, index), body))
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes behind the last entry")
    return AppendRequest(sender, to, term, previous_index, previous_term, tuple(entries), commit)


def _snapshot(data: bytes) -> RaftSnapshot:
    index, term, size = _SNAPSHOT.unpack_from(data, _HEAD.size)
    at = _HEAD.size + _SNAPSHOT.size
    members = configuration.decode(data[at : at + size])
    return RaftSnapshot(index, term, members, data[at + size :])
