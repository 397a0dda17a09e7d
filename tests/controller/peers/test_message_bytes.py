"""Raft messages as bytes: what was written is read, and nothing else is."""

from __future__ import annotations

import random

import pytest

from controller.peers.message_bytes import KINDS, decode, encode
from controller.raft.configuration import Configuration
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
from controller.raft.persisted import RaftSnapshot
from controller.raft.refusal import LaterVersionError

MEMBERS = Configuration(frozenset({1, 2, (1 << 63) + 5}), frozenset({2}), frozenset({9}))
ENTRIES = (
    LogEntry(3, 8, EntryKind.EMPTY),
    LogEntry(3, 9, EntryKind.COMMAND, b"a command"),
    LogEntry(4, 10, EntryKind.CONFIGURATION, MEMBERS.encode()),
)
MESSAGES: list[RaftMessage] = [
    PreVoteRequest(1, 2, 3, 4, 5),
    PreVoteAnswer(1, 2, 3, 4, True),
    VoteRequest(1, 2, 3, 4, 5, True),
    VoteAnswer(1, 2, 3, False),
    AppendRequest(1, 2, 4, 7, 3, ENTRIES, 6),
    AppendRequest(1, 2, 4, 7, 3, (), 6),
    AppendAnswer(1, 2, 3, 4, True, 5, 6),
    LeaderHeartbeat((1 << 64) - 1, 2, 3, 4, 5),
    HeartbeatAnswer(1, 2, 3, 4),
    SnapshotRequest(1, 2, 3, RaftSnapshot(70, 2, MEMBERS, b"state")),
    TimeoutNow(1, 2, 3),
]


def test_every_kind_of_message_is_here() -> None:
    assert {type(message) for message in MESSAGES} == set(KINDS)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_was_written_is_read(message: RaftMessage) -> None:
    assert decode(encode(message)) == message


def test_the_bytes_of_a_vote_request_are_these() -> None:
    """Controllers of two versions talk to each other during an upgrade."""
    assert encode(VoteRequest(1, 2, 3, 4, 5, True)).hex() == (
        "0102" "0000000000000001" "0000000000000002" "0000000000000003" "0000000000000004" "0000000000000005" "01"
    )  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_that_ends_early_is_refused(message: RaftMessage) -> None:
    data = encode(message)
    # The bytes of a snapshot end where the message ends.
    least = len(data) - len(b"state") if isinstance(message, SnapshotRequest) else len(data)
    for size in range(least):
        with pytest.raises(ValueError, match=r"raft message|entries|entry|configuration"):
            decode(data[:size])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_that_goes_on_is_refused(message: RaftMessage) -> None:
    if not isinstance(message, SnapshotRequest):
        with pytest.raises(ValueError, match=r"goes on|behind the last"):
            decode(encode(message) + b"\0")


@pytest.mark.parametrize("data", [b"", b"\x02" + encode(MESSAGES[0])[1:], b"\x01\x0a" + encode(MESSAGES[0])[2:]])
def test_another_version_and_an_unknown_kind_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="raft message"):
        decode(data)


def test_an_entry_of_a_kind_that_a_later_version_has_is_named() -> None:
    entry = LogEntry(3, 8, EntryKind.COMMAND, b"c")
    data = bytearray(encode(AppendRequest(1, 2, 3, 7, 3, (entry,), 7)))
    at = data.rindex(bytes((EntryKind.COMMAND,)) + (1).to_bytes(4, "big") + b"c")
    data[at] = 3
    with pytest.raises(LaterVersionError, match="entry 8 of the log has kind 3"):
        decode(bytes(data))


def test_entries_that_do_not_follow_the_previous_one_are_refused() -> None:
    with pytest.raises(ValueError, match="in the place of"):
        decode(encode(AppendRequest(1, 2, 4, 7, 3, ENTRIES[1:], 6)))


def test_any_bytes_are_a_message_or_are_refused() -> None:
    chance = random.Random(7)
    for _ in range(20_000):
        data = bytearray(encode(chance.choice(MESSAGES)))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            message = decode(bytes(data))
        except ValueError:
            continue
        assert decode(encode(message)) == message
