"""A controller that lost its directory comes back under its address with another identity, and takes the old one's place."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from controller.raft.configuration import Configuration


class MemberChange(NamedTuple):
    """Members that the leader asks raft for."""

    voters: frozenset[int]
    learners: frozenset[int]


def replacement(configuration: Configuration, there: Set[int], complete: bool) -> MemberChange | None:
    """Next change of members; None when no change is needed.

    configuration   the configuration at the leader
    there           identities that answer at the addresses of all controllers
    complete        True: a controller answers at each address

    A newcomer is a learner first. It then replaces a voter that answers nowhere while every address is taken: that voter cannot
    return. Raft refuses the second step until the learner has caught up.
    """
    if configuration.is_joint or not complete:
        return None
    newcomers = sorted(there - set(configuration.nodes))
    learners = sorted(configuration.learners & there)
    gone = sorted(set(configuration.nodes) - there)
    if newcomers:
        return MemberChange(configuration.voters, configuration.learners | {newcomers[0]})
    gone_voters = [each for each in gone if each in configuration.voters]
    if learners and gone_voters:
        voters = (configuration.voters - {gone_voters[0]}) | {learners[0]}
        return MemberChange(frozenset(voters), configuration.learners - {learners[0]})
    if gone and not learners:
        # A learner that has left, or a voter without a replacement.
        kept = configuration.learners & there
        return MemberChange(configuration.voters, kept) if kept != configuration.learners else None
    return None
