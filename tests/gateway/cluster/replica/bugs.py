"""Known bugs of replication, which the simulation has to find when they are put back."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from store.replication import held, leading, members, set_review
from store.replication.replica_log import follower_log
from tests.gateway.cluster.replica.world import run
from tests.simulation.kit.bugs import Bugs, Patch

BUGS: Final = Bugs()


@BUGS.found_by(run, 100, first=100)
def shrinks_early(patch: Patch) -> None:
    """Who is to be left out counts no more before the controllers have said so."""
    patch.setattr(members.SyncStateSet, "counted", lambda self: [self.asked or self.committed])


def forgets_the_asked(patch: Patch) -> None:
    """A newcomer counts only when the answer has come.

    Here nothing is lost by it any more: with fewer living members than `min_in_sync` an election keeps the dead in the set, and
    the newcomer confirms nothing alone. Whole clusters find it, whose checker compares the members at each confirmation.
    """
    patch.setattr(members.SyncStateSet, "counted", lambda self: [self.committed])


@BUGS.found_by(partial(run, far=True), 60)
def joins_too_early(patch: Patch) -> None:
    """A newcomer is taken in before it has what is confirmed."""

    def may_join(self: Any, follower: Any, *_at: int) -> bool:
        known = self._set.group.replica(follower.id)
        return follower.connection is not None and known is not None and known.incarnation == str(follower.incarnation)

    patch.setattr(set_review.SetReview, "_may_join", may_join)


@BUGS.found_by(run, 50, first=30)
def counts_the_connected(patch: Patch) -> None:
    """Confirmed is what those have who are connected: a record that a new epoch lacks is acknowledged under an old one."""

    def confirm(self: Any) -> None:
        positions = [(self._log.written, self._log.synced)]
        positions += [(each.written, each.synced) for each in self.followers.values() if each.connection is not None]
        self.written = max(self.written, min(each for each, _ in positions))
        self.synced = max(self.synced, min(each for _, each in positions))
        self._log.confirm(self.written, self.synced)

    patch.setattr(leading.Leading, "_confirm", confirm)


@BUGS.found_by(run, 300)
def written_is_synced(patch: Patch) -> None:
    """What is written counts as durable."""
    of = held.HeldPositions.of

    def written(self: Any, member: Any) -> tuple[int, int]:
        written, _ = of(self, member)
        return written, written

    patch.setattr(held.HeldPositions, "of", written)


@BUGS.found_by(run, 100)
def applies_at_once(patch: Patch) -> None:
    """A follower applies what is not confirmed: a truncation leaves timers and leases past the cut."""
    confirm = follower_log.Follower.confirm
    patch.setattr(follower_log.Follower, "confirm", lambda self, position: confirm(self, self.written))
