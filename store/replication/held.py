"""Positions up to which the members of a SyncStateSet hold the leader's log: by them a record is confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple, final

from domain.controller.group import SetMember, quorum
from domain.replication.ports import LeaderLog
from store.log import batch
from store.replication.progress import ReplicaProgress


class Quorum(NamedTuple):
    """Members of which some hold each confirmed record.

    members   a SyncStateSet, by id, ascending
    acks      as in StoreGroup; 0: all members
    """

    members: tuple[SetMember, ...]
    acks: int = 0

    def lacks(self, out: Set[SetMember]) -> bool:
        """True when nothing can be confirmed while the members `out` do not follow."""
        count = len(self.members)
        return count - sum(each in out for each in self.members) < quorum(self.acks, count)


@final
class HeldPositions:
    """Ends of the log at the leader and its followers, as reported in its epoch."""

    def __init__(self, log: LeaderLog, own: SetMember, followers: Mapping[int, ReplicaProgress]) -> None:
        """`own`: the leader as a member."""
        self._log = log
        self._own = own
        self._followers = followers

    def of(self, member: SetMember) -> tuple[int, int]:
        """(written, synced) of a member."""
        if member == self._own:
            return self._log.written, self._log.synced
        follower = self._followers.get(member.id)
        if follower is None or follower.member != member:
            return 0, 0
        return follower.written, follower.synced

    def by(self, counted: Quorum) -> tuple[int, int]:
        """(written, synced) up to which as many members of `counted` hold the log as its `acks` asks for; one is the leader.

        Fewer than all prove a position only together with a record of this epoch behind the end of the log at the election.
        Else a member with a record of an older leader, but of a newer epoch than that at this position, would win the next
        election without it.
        """
        members = {self._own, *counted.members}
        others = [self.of(each) for each in members if each != self._own]
        needed = quorum(counted.acks, len(members)) - 1
        own = self.of(self._own)
        return self._bound(own[0], [each[0] for each in others], needed), self._bound(
            own[1], [each[1] for each in others], needed
        )

    def _bound(self, own: int, others: list[int], needed: int) -> int:
        if needed < len(others):
            others.sort(reverse=True)
            found = min(own, others[needed - 1]) if needed else own
            if found > self._log.begin + batch.FILLER_BYTES:
                return found
        return min(own, *others) if others else own
