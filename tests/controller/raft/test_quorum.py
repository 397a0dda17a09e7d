"""Majorities: against the definition, counted out."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from controller.raft import quorum
from controller.raft.configuration import NOBODY, Configuration
from controller.raft.quorum import VoteOutcome

NODES = st.frozensets(st.integers(1, 7), max_size=7)
SOME = st.frozensets(st.integers(1, 7), min_size=1, max_size=7)
CONFIGURATIONS = st.builds(Configuration, SOME, NODES, NODES)


def has_majority(configuration: Configuration, nodes: frozenset[int]) -> bool:
    """More than half of the voters, and of the outgoing ones while there are any."""
    sets = [configuration.voters, *([configuration.outgoing] if configuration.outgoing else [])]
    return all(2 * len(each & nodes) > len(each) for each in sets)


@given(CONFIGURATIONS, st.dictionaries(st.integers(1, 7), st.integers(0, 5)))
def test_replicated_is_the_highest_index_that_a_majority_has(configuration: Configuration, match: dict[int, int]) -> None:
    having = {index: frozenset(node for node in range(1, 8) if match.get(node, 0) >= index) for index in range(6)}
    highest = max(index for index in range(6) if has_majority(configuration, having[index]))
    assert quorum.replicated(configuration, lambda node: match.get(node, 0)) == highest


@given(CONFIGURATIONS, st.dictionaries(st.integers(1, 7), st.booleans()))
def test_an_election_is_decided_when_no_vote_can_change_it(configuration: Configuration, votes: dict[int, bool]) -> None:
    granted = frozenset(node for node, vote in votes.items() if vote)
    silent = frozenset(range(1, 8)) - votes.keys()
    expected = VoteOutcome.PENDING
    if has_majority(configuration, granted):
        expected = VoteOutcome.WON
    elif not has_majority(configuration, granted | silent):
        expected = VoteOutcome.LOST
    assert quorum.outcome(configuration, votes) is expected
    assert quorum.agreed(configuration, lambda node: node in granted) is (expected is VoteOutcome.WON)


def test_any_two_majorities_have_a_voter_in_common() -> None:
    for size in range(1, 8):
        sets = list(combinations(range(size), quorum.majority(size)))
        assert all(set(one) & set(other) for one in sets for other in sets)


def test_nobody_elects_and_commits_nothing() -> None:
    assert quorum.outcome(NOBODY, {1: True}) is VoteOutcome.LOST
    assert not quorum.agreed(NOBODY, lambda node: True)
    assert quorum.replicated(NOBODY, lambda node: 9) == 0
