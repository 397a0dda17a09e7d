"""A leader whose process has ended its connections, and that says nothing more, is replaced sooner than a silent one."""

from __future__ import annotations

import pytest

from controller.raft.message import LeaderHeartbeat, PreVoteAnswer, PreVoteRequest
from controller.raft.persisted import founder
from controller.raft.raft import Raft
from controller.raft.replica import RaftRole
from controller.raft.settings import RaftSettings
from tests.simulation.kit.entropy import FixedEntropy

LEADER, OTHER, OWN = 1, 2, 3
SETTINGS = RaftSettings(election_ticks=10, parted_ticks=3)
LOT = 0.5
PARTED = 3 + 1 + 2
"""Ticks of patience after the end of the connection, of the second of the voters that are left."""
SILENT = 10 + 5


def _follower() -> Raft:
    raft = Raft(OWN, SETTINGS, founder(frozenset({LEADER, OTHER, OWN})), FixedEntropy(LOT))
    _hear(raft)
    return raft


def _hear(raft: Raft) -> None:
    raft.receive(LeaderHeartbeat(LEADER, OWN, 1, 1, 0))


def _ticks(raft: Raft) -> int:
    """Ticks until it asks for an election."""
    count = 0
    while raft.replica.role is RaftRole.FOLLOWER:
        raft.tick()
        count += 1
    return count


def _would_vote(raft: Raft) -> bool:
    raft.receive(PreVoteRequest(OTHER, OWN, 1, 1, 0))
    ready = raft.take()
    assert ready is not None
    raft.persisted()
    return any(each.granted for each in ready.messages if isinstance(each, PreVoteAnswer))


def test_a_follower_that_is_parted_from_the_leader_asks_sooner() -> None:
    raft = _follower()
    raft.parted(LEADER)
    assert _ticks(raft) == PARTED


def test_no_two_ask_at_a_time() -> None:
    nodes = range(2, 6)
    asked = []
    for node in nodes:
        raft = Raft(node, SETTINGS, founder(frozenset({LEADER, *nodes})), FixedEntropy(LOT))
        raft.receive(LeaderHeartbeat(LEADER, node, 1, 1, 0))
        raft.parted(LEADER)
        asked.append(_ticks(raft))
    assert asked == [4, 6, 8, 10]


@pytest.mark.parametrize("passed", [1, PARTED, PARTED + 3])
def test_its_patience_counts_from_the_last_message_of_the_leader(passed: int) -> None:
    raft = _follower()
    for _ in range(passed):
        raft.tick()
    raft.parted(LEADER)
    assert _ticks(raft) == max(PARTED - passed, 1)


def test_another_message_of_the_leader_ends_the_haste() -> None:
    raft = _follower()
    raft.parted(LEADER)
    for _ in range(PARTED - 1):
        raft.tick()
    _hear(raft)
    assert _ticks(raft) == SILENT


def test_the_end_of_another_connection_says_nothing() -> None:
    raft = _follower()
    raft.parted(OTHER)
    assert _ticks(raft) == SILENT


@pytest.mark.parametrize(("parted", "passed"), [(False, 10), (True, 3)])
def test_a_voter_votes_once_it_hears_the_leader_no_more(parted: bool, passed: int) -> None:
    raft = _follower()
    if parted:
        raft.parted(LEADER)
    for _ in range(passed - 1):
        raft.tick()
    assert not _would_vote(raft)
    raft.tick()
    assert _would_vote(raft)


def test_a_leader_that_loses_a_connection_leads_on() -> None:
    raft = Raft(OWN, SETTINGS, founder(frozenset({OWN})), FixedEntropy(LOT))
    raft.campaign()
    raft.parted(OWN)
    raft.parted(OTHER)
    raft.tick()
    assert raft.replica.role is RaftRole.LEADER
