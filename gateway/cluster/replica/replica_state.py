"""State of a replica for tools and readers: its log, its followers, and the follower that serves a reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from domain.admin.replica import FollowerFound, ReplicaState
from domain.replication.ports import FollowerLog, LeaderLog
from store.replication.leading import Leading, member_of


def follower_state(own: int, leader_at: str, log: FollowerLog) -> ReplicaState:
    """The state of replica `own` that follows the leader at `leader_at`; "": no leader."""
    return ReplicaState(own, False, leader_at, log.written, log.applied, log.eras())


def leader_state(own: int, leading: Leading, log: LeaderLog) -> ReplicaState:
    """The state of replica `own` that leads, with its connected followers."""
    group = leading.group
    found = [
        FollowerFound(
            each.id,
            each.serves or group.address(each.id),
            each.written,
            member_of(each.id, each.incarnation) in group.members,
        )
        for _, each in sorted(leading.followers.items())
        if each.connection is not None
    ]
    return ReplicaState(own, True, "", log.written, leading.written, log.eras(), found)


@final
class ServingFollowers:
    """Followers of a leader that serve readers.

    _turn   count of the answers of `one`, for round robin
    """

    def __init__(self) -> None:
        self._turn = 0

    def all(self, leading: Leading | None) -> Mapping[int, str]:
        """See ReplicaView.readers. `leading` None: this replica does not lead, and the result is empty."""
        followers = {} if leading is None else leading.followers
        return {each.id: each.serves for each in followers.values() if each.serves and each.connection is not None}

    def one(self, leading: Leading | None, position: int, behind_bytes: int) -> int:
        """See ReplicaView.reader_for. `leading` None: this replica does not lead, and the result is 0."""
        if leading is None:
            return 0
        held = [
            each.id for each in leading.followers.values()
            if each.serves and each.connection is not None and min(each.written, leading.written) - position > behind_bytes
        ]  # fmt: skip
        self._turn += 1
        return held[self._turn % len(held)] if held else 0
