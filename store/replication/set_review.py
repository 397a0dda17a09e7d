"""The review of the SyncStateSet: members that do not follow are left out, and followers that have the log join.

The set is not shrunk below `min_in_sync`: then nothing is confirmed, and every member has all that was, and may be elected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain.controller.group import SetMember, StoreGroup
from domain.controller.left_out import LeftOut, MemberLack
from domain.limits import MILLISECOND_NS
from domain.replication.ports import LeaderLog
from store.replication.held import HeldPositions, Quorum
from store.replication.members import SyncStateSet
from store.replication.progress import ReplicaProgress

NEAR_BYTES: Final = 1024 * 1024
"""Largest distance from the end at which a follower may become a member."""
LOST_NS: Final = 300 * MILLISECOND_NS
"""Time without a connection after which a member is left out."""
ABSENT_NS: Final = 1_500 * MILLISECOND_NS
"""The same for a member that has not followed yet in this epoch."""
STUCK_NS: Final = 1_500 * MILLISECOND_NS
"""Time without progress after which a member that is behind is left out, and without a report for one that gives signs."""
FAR_BYTES: Final = 64 * 1024 * 1024
"""Distance from the end at which a member is left out though it makes progress, where not all members confirm: nothing waits
for it, and it would count for an election that its log could not win."""
NOT_SLOW_MIN: Final = 2
"""Least number of members, with the leader, that remain when slow ones are left out; `min_in_sync` if that is larger."""


def least_of(group: StoreGroup) -> int:
    """Members that the SyncStateSet of a group keeps, whether they follow or not."""
    return min(group.min_in_sync, len(group.members))


@final
class SetReview:
    """Asks for another set when the members are not those that should be.

    slow           ids of replicas that the controllers judge slow: they do not count for the confirmed positions while
                   NOT_SLOW_MIN others do
    begun_ns       since when an absent member is waited for, monotonic
    absent         members that do not follow, and are kept because too few would be left
    stalled_ns     since when too many counted members do not follow for anything to be confirmed, monotonic; 0: enough do
    has_confirmed  True: the members have confirmed something of this leadership's own epoch
    """

    def __init__(
        self, log: LeaderLog, members: SyncStateSet, own: SetMember, followers: Mapping[int, ReplicaProgress],
        held: HeldPositions, begun_ns: int,
    ) -> None:  # fmt: skip
        self.slow: frozenset[int] = frozenset()
        self.begun_ns = begun_ns
        self.absent = 0
        self.stalled_ns = 0
        self.has_confirmed = False
        self._log = log
        self._set = members
        self._own = own
        self._followers = followers
        self._held = held

    def review(self, now_ns: int, written: int, synced: int) -> None:
        """Ask for the members that follow, and the followers that may join. `written`, `synced`: confirmed positions."""
        self.has_confirmed = written > self._log.begin
        counted = self._set.counted()
        all_counted = {each for one in counted for each in one.members}
        out = {each for each in all_counted if each != self._own and self._is_out(each, now_ns)}
        self.stalled_ns = (self.stalled_ns or now_ns) if any(one.lacks(out) for one in counted) else 0
        kept = [member for member in self._set.members if member not in out]
        joined = [
            each.member
            for each in self._followers.values()
            if self._may_join(each, now_ns, written, synced) and each.member not in kept
        ]
        if self.slow:
            kept, joined = self._without_slow(kept, joined)
        self.absent = 0
        if len({each.id for each in (*kept, *joined)}) < least_of(self._set.group):
            self.absent = len(self._set.members) - len(kept)
            kept = list(self._set.members)
        ids = {member.id for member in joined}
        members = tuple(sorted([*(member for member in kept if member.id not in ids), *joined]))
        wanted = Quorum(members, self._set.group.asked_acks)
        if wanted != self._set.committed and self._takes_over(wanted, written, synced):
            self._set.ask(wanted)

    def forgive(self, late_ns: int, now_ns: int) -> None:
        """Leave a pause of the leader itself out of the times, as ReplicaProgress.forgive does."""
        for follower in self._followers.values():
            follower.forgive(late_ns, now_ns)
        self.begun_ns = min(self.begun_ns + late_ns, now_ns)
        self.stalled_ns = min(self.stalled_ns + late_ns, now_ns) if self.stalled_ns else 0

    def _takes_over(self, wanted: Quorum, written: int, synced: int) -> bool:
        """True when `wanted` hold all that may be confirmed, by this leader or an earlier one, as an election would need it.

        As long as all members hold what is confirmed, those that remain do so, and newcomers by `_may_join`.
        """
        if self._set.group.electing == 1:
            return True
        held_written, held_synced = self._held.by(wanted)
        begin = self._log.begin
        return held_written >= max(written, begin) and held_synced >= max(synced, begin)

    def _without_slow(self, kept: list[SetMember], joined: list[SetMember]) -> tuple[list[SetMember], list[SetMember]]:
        """(kept, joined) without slow replicas, if enough other members remain."""
        ordinary = [each for each in kept if each == self._own or each.id not in self.slow]
        if len(ordinary) < max(NOT_SLOW_MIN, self._set.group.min_in_sync):
            return kept, joined
        return ordinary, [each for each in joined if each.id not in self.slow]

    def _is_out(self, member: SetMember, now_ns: int) -> bool:
        follower = self._followers.get(member.id)
        if follower is None or str(follower.incarnation) != member.incarnation:
            return now_ns - self.begun_ns >= ABSENT_NS
        if follower.connection is None and now_ns - follower.lost_ns >= LOST_NS:
            return True
        if self._set.group.electing > 1 and self._log.written - follower.written > FAR_BYTES:
            return True
        return _stands_still(follower, now_ns)

    def left_out(self, now_ns: int, written: int, synced: int) -> tuple[LeftOut, ...]:
        """The replicas that are no learners and not in the set, with what they lack. `written`, `synced`: as in `review`."""
        return tuple(
            self._word(each.id, now_ns, written, synced)
            for each in self._set.group.replicas
            if not each.learner and each.member not in self._set.members
        )

    def _word(self, replica: int, now_ns: int, written: int, synced: int) -> LeftOut:
        follower = self._followers.get(replica)
        if follower is None:
            return LeftOut(replica, MemberLack.CONNECTION)
        lacks = self._lacks(follower, now_ns, written, synced)
        if lacks is None:
            return LeftOut(replica, MemberLack.SPEED if replica in self.slow else MemberLack.CONSENT)
        return lacks

    def _may_join(self, follower: ReplicaProgress, now_ns: int, written: int, synced: int) -> bool:
        known = self._set.group.replica(follower.id)
        return known is not None and not known.learner and self._lacks(follower, now_ns, written, synced) is None

    def _lacks(self, follower: ReplicaProgress, now_ns: int, written: int, synced: int) -> LeftOut | None:
        """What a follower lacks to be a member; None: it has all confirmed bytes, and all bytes of this log at the election,
        since the previous leader may have confirmed them.

        A member without progress always has all confirmed bytes, since it holds the confirmation back; it must not join again
        at the moment at which it is left out."""
        known = self._set.group.replica(follower.id)
        if follower.connection is None or known is None or known.incarnation != str(follower.incarnation):
            return LeftOut(follower.id, MemberLack.CONNECTION)
        if _stands_still(follower, now_ns):
            return LeftOut(follower.id, MemberLack.PROGRESS)
        begin = self._log.begin
        lacks = max(max(written, begin) - follower.written, max(synced, begin) - follower.synced)
        if lacks <= 0 and self._log.written - follower.written > NEAR_BYTES:
            lacks = self._log.written - follower.written
        return LeftOut(follower.id, MemberLack.RECORDS, lacks) if lacks > 0 else None


def _stands_still(follower: ReplicaProgress, now_ns: int) -> bool:
    """True for a follower that is behind and does not get on, or has fallen silent."""
    return now_ns - (min(follower.moved_ns, follower.heard_ns) if follower.signs else follower.moved_ns) >= STUCK_NS
