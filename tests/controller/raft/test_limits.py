"""What a node refuses, and what it must never be told."""

from __future__ import annotations

import pytest

from controller.raft.entry import LogEntry
from controller.raft.message import AppendRequest, LeaderHeartbeat
from controller.raft.persisted import Persisted, founder
from controller.raft.raft import Raft
from controller.raft.refusal import RaftRefusal, SafetyError
from controller.raft.settings import RaftSettings
from tests.controller.raft.scene import PATIENCE
from tests.simulation.kit.entropy import FixedEntropy


def alone(settings: RaftSettings | None = None) -> Raft:
    """A node that leads a group of one; its first entry is committed."""
    raft = Raft(1, settings or RaftSettings(), founder(frozenset({1})), FixedEntropy(PATIENCE))
    raft.campaign()
    while raft.take() is not None:
        raft.persisted()
    return raft


def test_commands_are_bounded() -> None:
    raft = alone(RaftSettings(entry_bytes_max=10, uncommitted_bytes_max=80))
    assert raft.propose(bytes(11)) is RaftRefusal.TOO_LARGE
    assert isinstance(raft.propose(bytes(10)), LogEntry)
    assert isinstance(raft.propose(bytes(10)), LogEntry)
    assert raft.propose(b"") is RaftRefusal.TOO_MANY
    while raft.take() is not None:
        raft.persisted()
    assert isinstance(raft.propose(b""), LogEntry)


def test_waiting_reads_are_bounded() -> None:
    raft = alone(RaftSettings(reads_waiting_max=2))
    assert [raft.read(ticket) for ticket in (1, 2, 3)] == [None, None, RaftRefusal.TOO_MANY]
    ready = raft.take()
    assert ready is not None
    assert [read.ticket for read in ready.reads] == [1, 2]
    raft.persisted()
    assert raft.read(4) is None


def test_members_that_cannot_be_are_refused() -> None:
    raft = alone()
    for voters, learners in (({}, {}), ({1}, {}), ({1}, {1}), ({1}, {0}), ({1}, range(2, 80))):
        assert raft.change(frozenset(voters), frozenset(learners)) is RaftRefusal.INVALID_MEMBERS


def test_a_ready_is_finished_before_the_next() -> None:
    raft = alone()
    raft.propose(b"x")
    assert raft.take() is not None
    raft.propose(b"y")
    assert raft.take() is None
    raft.persisted()
    assert raft.take() is not None
    raft.persisted()
    with pytest.raises(ValueError, match="no Ready"):
        raft.persisted()


def test_only_what_was_handed_out_is_compacted() -> None:
    raft = alone()
    raft.propose(b"x")
    with pytest.raises(ValueError, match="a snapshot at 3"):
        raft.compact(3, b"")
    assert raft.compact(2, b"")
    assert not raft.compact(2, b"")


def test_two_leaders_in_a_term_are_an_error() -> None:
    raft = alone()
    with pytest.raises(SafetyError, match="2 and 1 lead in term 1"):
        raft.receive(LeaderHeartbeat(2, 1, 1, 0, 0))


def test_what_is_meant_for_another_node_is_dropped() -> None:
    raft = Raft(1, RaftSettings(), Persisted(), FixedEntropy(PATIENCE))
    raft.receive(AppendRequest(2, 3, 7, 0, 0, (), 0))
    assert (raft.replica.term, raft.take()) == (0, None)


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="heartbeat_ticks"):
        RaftSettings(election_ticks=1)
    with pytest.raises(ValueError, match="parted_ticks"):
        RaftSettings(parted_ticks=1)
    with pytest.raises(ValueError, match="limits"):
        RaftSettings(append_bytes_max=0)
