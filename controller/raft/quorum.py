"""Majorities, plain and joint (thesis sections 3.4, 3.6 and 4.3). Functions of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from controller.raft.configuration import Configuration


class VoteOutcome(Enum):
    """Outcome of the votes counted so far."""

    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def majority(count: int) -> int:
    """The smallest number of voters of which any two sets of that size have a voter in common."""
    return count // 2 + 1


def replicated(configuration: Configuration, match: Callable[[int], int]) -> int:
    """The highest index that a majority has, of both sets while joint. 0 without voters.

    match   node -> highest index up to which its persisted log equals the leader's
    """
    return min(_replicated(voters, match) for voters in _sets(configuration))


def outcome(configuration: Configuration, votes: Mapping[int, bool]) -> VoteOutcome:
    """Outcome of `votes` (node -> granted). Votes of nodes that are no voters are not counted. LOST without voters."""
    outcomes = [_outcome(voters, votes) for voters in _sets(configuration)]
    if VoteOutcome.LOST in outcomes:
        return VoteOutcome.LOST
    return VoteOutcome.PENDING if VoteOutcome.PENDING in outcomes else VoteOutcome.WON


def agreed(configuration: Configuration, agrees: Callable[[int], bool]) -> bool:
    """True when a majority agrees, of both sets while joint. False without voters."""
    return all(sum(agrees(node) for node in sorted(voters)) >= majority(len(voters)) for voters in _sets(configuration))


def _sets(configuration: Configuration) -> tuple[frozenset[int], ...]:
    return (configuration.voters, configuration.outgoing) if configuration.is_joint else (configuration.voters,)


def _replicated(voters: frozenset[int], match: Callable[[int], int]) -> int:
    if not voters:
        return 0
    return sorted((match(node) for node in sorted(voters)), reverse=True)[majority(len(voters)) - 1]


def _outcome(voters: frozenset[int], votes: Mapping[int, bool]) -> VoteOutcome:
    needed = majority(len(voters))
    granted = sum(votes.get(node, False) for node in sorted(voters))
    refused = sum(not votes.get(node, True) for node in sorted(voters))
    if granted >= needed:
        return VoteOutcome.WON
    return VoteOutcome.PENDING if len(voters) - refused >= needed else VoteOutcome.LOST
